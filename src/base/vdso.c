/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The vDSO's symbols. The kernel maps it as a small ELF library; its table of
 * symbols is as long as the hash table says, in either of its two forms.
 */

#include "base/vdso.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

struct image {
	const ElfW(Sym) * sym;
	const char *str;
	uintptr_t bias; /* added to what the file calls an address */
	uint32_t count;
};

/* The last symbol of the last chain is the last of all. */
static uint32_t gnu_count(const uint32_t *hash)
{
	uint32_t buckets = hash[0], first = hash[1], last = 0, i;
	const uint32_t *bucket, *chain;

	bucket = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / 4);
	chain = bucket + buckets;
	for (i = 0; i < buckets; i++)
		if (bucket[i] > last)
			last = bucket[i];
	if (last < first)
		return 0;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

static const void *at(const struct image *im, ElfW(Addr) addr)
{
	return (const void *)(im->bias + addr);
}

static void read_dynamic(struct image *im, const ElfW(Dyn) * d)
{
	for (; d->d_tag != DT_NULL; d++) {
		const void *p = at(im, d->d_un.d_ptr);

		if (d->d_tag == DT_SYMTAB)
			im->sym = p;
		else if (d->d_tag == DT_STRTAB)
			im->str = p;
		else if (d->d_tag == DT_GNU_HASH && !im->count)
			im->count = gnu_count(p);
		else if (d->d_tag == DT_HASH)
			im->count = ((const ElfW(Word) *)p)[1];
	}
}

static void read_image(struct image *im, const ElfW(Ehdr) * h)
{
	const ElfW(Phdr) *ph = (const void *)((const char *)h + h->e_phoff);
	const ElfW(Dyn) *dyn = NULL;
	bool loaded = false;
	int i;

	for (i = 0; i < h->e_phnum; i++) {
		if (ph[i].p_type == PT_LOAD && !loaded) {
			im->bias =
				(uintptr_t)h + ph[i].p_offset - ph[i].p_vaddr;
			loaded = true;
		} else if (ph[i].p_type == PT_DYNAMIC) {
			dyn = (const void *)((const char *)h + ph[i].p_offset);
		}
	}
	if (loaded && dyn)
		read_dynamic(im, dyn);
}

void *vdso_symbol(const char *name)
{
	const ElfW(Ehdr) *h = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct image im = { 0 };
	uint32_t i;

	if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG))
		return NULL;
	read_image(&im, h);
	for (i = 0; im.sym && im.str && i < im.count; i++)
		if (im.sym[i].st_shndx != SHN_UNDEF &&
		    !strcmp(im.str + im.sym[i].st_name, name))
			return (void *)(im.bias + im.sym[i].st_value);
	return NULL;
}
