/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/text.h"
#include "tools/root.h"

#define SCRIPTS	 4 /* one that is interpreted by another, and so on */
#define HEADERS	 128 /* of a program, at most */
#define GO_BUILD 4 /* type of a note with the name "Go" */

/* --- where it is -------------------------------------------------------- */

static bool file_at(char *path, const char *root, const char *dir, size_t len,
		    const char *name)
{
	int n = snprintf(path, PATH_MAX, "%s%.*s%s%s", root, (int)len, dir,
			 len ? "/" : "", name);
	struct stat st;
	bool good;
	int fd;

	if (n >= PATH_MAX)
		return false;
	if (!*root)
		return !stat(path, &st) && S_ISREG(st.st_mode) &&
		       (st.st_mode & 0111);
	fd = root_open(root, path);
	if (fd < 0)
		return false;
	good = !fstat(fd, &st) && S_ISREG(st.st_mode) && (st.st_mode & 0111);
	close(fd);
	return good;
}

static int find(char *path, const char *root, const char *name)
{
	const char *dirs = getenv("PATH");
	size_t len;

	if (strchr(name, '/'))
		return file_at(path, *name == '/' ? root : "", "", 0, name) ?
			       0 :
			       -ENOENT;
	if (!dirs || *root)
		dirs = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:"
		       "/sbin:/bin";
	for (;; dirs += len + 1) {
		len = strcspn(dirs, ":");
		if (len && file_at(path, root, dirs, len, name))
			return 0;
		if (!dirs[len])
			return -ENOENT;
	}
}

/* --- ELF ---------------------------------------------------------------- */

static bool read_at(int fd, void *to, size_t len, uint64_t at)
{
	return at < INT64_MAX && pread(fd, to, len, (off_t)at) == (ssize_t)len;
}

static void interpreter(int fd, const ElfW(Phdr) * h, struct program *p)
{
	char name[256] = "";
	size_t len = h->p_filesz < sizeof(name) - 1 ? h->p_filesz :
						      sizeof(name) - 1;

	if (!read_at(fd, name, len, h->p_offset))
		return;
	p->kind = strstr(name, "/ld-linux") || strstr(name, "/ld64.so") ||
				  strstr(name, "/ld.so") ?
			  PROGRAM_GLIBC :
			  PROGRAM_MUSL;
}

/* Names and contents are padded to four bytes. */
static void notes(int fd, const ElfW(Phdr) * h, struct program *p)
{
	uint64_t at = 0;
	ElfW(Nhdr) n;
	char name[4];

	while (at + sizeof(n) + sizeof(name) <= h->p_filesz &&
	       read_at(fd, &n, sizeof(n), h->p_offset + at)) {
		if (n.n_namesz == sizeof(name) && n.n_type == GO_BUILD &&
		    read_at(fd, name, sizeof(name),
			    h->p_offset + at + sizeof(n)) &&
		    !memcmp(name, "Go\0", sizeof(name)))
			p->go = true;
		at += sizeof(n) + (((uint64_t)n.n_namesz + 3) & ~3ull) +
		      (((uint64_t)n.n_descsz + 3) & ~3ull);
	}
}

static void elf(int fd, struct program *p)
{
	const int own = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
	ElfW(Ehdr) e, self;
	ElfW(Phdr) h;
	unsigned int i;
	int me;

	p->kind = PROGRAM_FOREIGN;
	if (!read_at(fd, &e, sizeof(e), 0) || e.e_ident[EI_CLASS] != own)
		return;
	me = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (me >= 0 && read_at(me, &self, sizeof(self), 0) &&
	    (self.e_machine != e.e_machine ||
	     self.e_ident[EI_DATA] != e.e_ident[EI_DATA]))
		e.e_phnum = 0;
	else
		p->kind = PROGRAM_STATIC;
	if (me >= 0)
		close(me);
	if (e.e_phentsize != sizeof(h) || e.e_phnum > HEADERS)
		return;
	for (i = 0; i < e.e_phnum; i++) {
		if (!read_at(fd, &h, sizeof(h), e.e_phoff + i * sizeof(h)))
			return;
		if (h.p_type == PT_INTERP)
			interpreter(fd, &h, p);
		else if (h.p_type == PT_NOTE)
			notes(fd, &h, p);
	}
}

/* --- scripts ------------------------------------------------------------ */

/* The interpreter of "#!/usr/bin/env -S python3 -u" is python3. */
static int script(char *line, char *name, size_t size)
{
	char *save, *word = strtok_r(line, " \t", &save);
	const char *base;

	if (!word)
		return -ENOEXEC;
	base = strrchr(word, '/');
	if (!strcmp(base ? base + 1 : word, "env")) {
		do
			word = strtok_r(NULL, " \t", &save);
		while (word && (*word == '-' || strchr(word, '=')));
		if (!word)
			return -ENOEXEC;
	}
	if (strlen(word) >= size)
		return -ENAMETOOLONG;
	strcpy(name, word);
	return 0;
}

/* 1: `name` is the interpreter of it now. */
static int read_one(const char *root, char *name, char *path, struct program *p)
{
	char head[256] = "";
	struct stat st;
	ssize_t n;
	int fd, ret = find(path, root, name);

	if (ret)
		return ret;
	fd = root_open(root, path);
	if (fd < 0)
		return -errno;
	n = pread(fd, head, sizeof(head) - 1, 0);
	if (n >= 4 && !memcmp(head, ELFMAG, SELFMAG)) {
		elf(fd, p);
		if (!fstat(fd, &st))
			p->raised = (st.st_mode & S_ISUID) ||
				    (st.st_mode & (S_ISGID | S_IXGRP)) ==
					    (S_ISGID | S_IXGRP) ||
				    fgetxattr(fd, "security.capability", NULL,
					      0) > 0;
	} else if (n > 2 && !memcmp(head, "#!", 2)) {
		head[strcspn(head, "\n")] = '\0';
		ret = script(head + 2, name, PATH_MAX);
		ret = ret ? ret : 1;
	} else {
		p->kind = PROGRAM_UNKNOWN;
	}
	close(fd);
	return ret;
}

int program_read(const char *root, const char *name, struct program *p)
{
	char at[PATH_MAX];
	int depth, ret = 1;

	memset(p, 0, sizeof(*p));
	if (strlen(name) >= sizeof(at))
		return -ENAMETOOLONG;
	strcpy(at, name);
	for (depth = 0; ret == 1; depth++) {
		if (depth == SCRIPTS)
			return -ELOOP;
		ret = read_one(root, at, depth ? p->by : p->path, p);
	}
	return ret;
}

const char *program_text(const struct program *p)
{
	switch (p->kind) {
	case PROGRAM_GLIBC:
		return p->go ? "a dynamic Go program" : "dynamic, with glibc";
	case PROGRAM_MUSL:
		return "dynamic, with another libc than glibc";
	case PROGRAM_STATIC:
		return p->go ? "a static Go program" : "a static program";
	case PROGRAM_FOREIGN:
		return "of another processor or word size";
	default:
		return "neither a program nor a script";
	}
}

void program_names(const struct program *p, const char *name, struct config *c)
{
	const char *path = p->by[0] ? p->by : p->path;
	char *real = realpath(path, NULL);

	text_copy(c->program, sizeof(c->program),
		  text_base_name(p->by[0] ? p->by : name));
	text_copy(c->exe, sizeof(c->exe), text_base_name(real ? real : path));
	free(real);
}
