/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Without an engine: fuzz_NAME runs the inputs of its corpus, changes of them,
 * and inputs that are drawn, the same ones for the same seed. `fuzz_NAME FILE...`
 * runs those files, `fuzz_NAME [-s SEED] [-n COUNT]` COUNT inputs that are drawn.
 */
#ifndef LIBFUZZER

#include "fuzz.h"

#include <dirent.h>

#define INPUT_MAX 16384

static uint64_t seed = 1;

static uint32_t dice(uint32_t sides)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % sides;
}

/* Overwrites, copies, flips and cuts. */
static size_t change(uint8_t *data, size_t size)
{
	static const char likely[] = "*:/.-[]# \t\r\n0129afF\0\xff";
	uint32_t n = 1 + dice(8), at;

	while (n-- && size > 1) {
		at = dice((uint32_t)size);
		switch (dice(8)) {
		case 0:
			if (!dice(4))
				size = at + 1;
			break;
		case 1:
			data[at] = data[dice((uint32_t)size)];
			break;
		case 2:
			data[at] ^= (uint8_t)(1u << dice(8));
			break;
		case 3:
			data[at] = (uint8_t)dice(256);
			break;
		default:
			data[at] = (uint8_t)likely[dice(sizeof(likely))];
			break;
		}
	}
	return size;
}

/* In memory of exactly its size. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *heap = malloc(size ? size : 1);

	must(heap);
	memcpy(heap, data, size);
	LLVMFuzzerTestOneInput(heap, size);
	free(heap);
}

static void run_file(const char *path, unsigned int changes)
{
	static uint8_t data[INPUT_MAX], copy[INPUT_MAX];
	FILE *f = fopen(path, "rb");
	size_t size;

	if (!f) {
		perror(path);
		exit(1);
	}
	size = fread(data, 1, sizeof(data), f);
	fclose(f);
	run(data, size);
	while (changes--) {
		memcpy(copy, data, size);
		run(copy, change(copy, size));
	}
}

static void run_random(unsigned int count)
{
	static uint8_t data[4096];
	size_t n, i;

	while (count--) {
		n = dice(sizeof(data));
		for (i = 0; i < n; i++)
			data[i] = (uint8_t)dice(256);
		run(data, n);
	}
}

static int run_corpus(void)
{
	const char *top = getenv("srcdir");
	char dir[512], path[1024];
	struct dirent **list;
	int files = 0, n, i;

	snprintf(dir, sizeof(dir), "%s/tests/fuzz/corpus/%s", top ? top : ".",
		 target.name);
	n = scandir(dir, &list, NULL, alphasort);
	if (n < 0) {
		perror(dir);
		return 1;
	}
	for (i = 0; i < n; free(list[i++])) {
		if (list[i]->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
		run_file(path, target.changes);
		files++;
	}
	free(list);
	printf("%d files, %u changes of each, %u drawn\n", files,
	       target.changes, target.random);
	return !files;
}

int main(int argc, char **argv)
{
	unsigned int count = target.random;
	int i, bad = 0;

	if (argc == 1)
		bad = run_corpus();
	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-s") && i + 1 < argc) {
			seed = strtoull(argv[++i], NULL, 0);
		} else if (!strcmp(argv[i], "-n") && i + 1 < argc) {
			count = (unsigned int)strtoul(argv[++i], NULL, 0);
		} else {
			run_file(argv[i], 0);
			count = 0;
		}
	}
	run_random(count);
	return bad;
}

#else
typedef int replay_is_not_needed;
#endif
