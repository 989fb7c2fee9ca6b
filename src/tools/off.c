/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/off.h"

#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/seccomp.h"
#include "tools/stray.h"

/* The value of a variable of its environment, malloced; NULL: not set. */
static char *variable(pid_t pid, const char *name)
{
	char path[64], *word = NULL, *value = NULL;
	size_t room = 0, len = strlen(name);
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	f = fopen(path, "re");
	while (f && !value && getdelim(&word, &room, '\0', f) > 0)
		if (!strncmp(word, name, len) && word[len] == '=')
			value = strdup(word + len + 1);
	free(word);
	if (f)
		fclose(f);
	return value;
}

static bool secure(pid_t pid)
{
	Elf64_auxv_t aux;
	char path[64];
	bool yes = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	f = fopen(path, "re");
	while (f && fread(&aux, sizeof(aux), 1, f) == 1)
		if (aux.a_type == AT_SECURE)
			yes = aux.a_un.a_val != 0;
	if (f)
		fclose(f);
	return yes;
}

const char *off_why(pid_t pid)
{
	char *disable = variable(pid, "LIBSDP_DISABLE");
	char *trust = variable(pid, SECCOMP_ENV);
	bool disabled = disable && *disable && strcmp(disable, "0");
	bool filtered = !trust && stray_filtered(pid);

	free(disable);
	free(trust);
	if (secure(pid))
		return "it runs with raised privileges (set-user-ID or file "
		       "capabilities)";
	if (disabled)
		return "LIBSDP_DISABLE is set there";
	return filtered ? "a system call filter is in force there: the library "
			  "does nothing" :
			  NULL;
}
