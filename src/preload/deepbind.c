/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Libraries opened with RTLD_DEEPBIND find libc's names before ours. Each one
 * that such a dlopen() brings in gets the library's names where it refers to
 * libc's: then the program's sockets work in it, too. What its constructors
 * call before dlopen() returns, and what dlmopen() loads (it has a libc of its
 * own), passes libsdp by.
 *
 * libc looks at the caller of dlopen(): so every other mode goes on to it with
 * the caller's return address in its place (the assembler below), and for this
 * one the caller's search path is gone through here.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/sys.h"
#include "preload/preload.h"

#if defined(__x86_64__)
#define REL_SLOT R_X86_64_JUMP_SLOT
#define REL_GLOB R_X86_64_GLOB_DAT
#define REL_WORD R_X86_64_64
#elif defined(__aarch64__)
#define REL_SLOT R_AARCH64_JUMP_SLOT
#define REL_GLOB R_AARCH64_GLOB_DAT
#define REL_WORD R_AARCH64_ABS64
#endif

void *(*real_dlopen)(const char *file, int mode);

/* --- the names ----------------------------------------------------------- */

static const char *const names[] = {
#define CALL(name, ret, params, args, raw) #name,
#define CALL_LIB			   CALL
#define CALL_NEG			   CALL
#define CALL_NEGLIB			   CALL
#define CALL_OWN(name)			   #name,
#define ALIAS(alias, name)		   #alias,
#include "preload/calls.def"
};

#define NAMES (sizeof(names) / sizeof(names[0]))

static bool listed(const char *name)
{
	size_t i;

	for (i = 0; i < NAMES; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* --- one object ------------------------------------------------------------ */

struct object {
	struct link_map *map;
	const ElfW(Sym) * sym;
	const char *str;
	const ElfW(Rela) * plt, *rela;
	size_t plt_len, rela_len; /* bytes */
	uintptr_t relro, relro_end; /* pages that are read-only by now */
};

/* libc has turned most of these into addresses, but not everywhere. */
static uintptr_t place(const struct link_map *m, ElfW(Addr) at)
{
	return at < m->l_addr ? m->l_addr + at : at;
}

static void read_dynamic(struct object *o)
{
	const struct link_map *m = o->map;
	const ElfW(Dyn) * d;

	for (d = m->l_ld; d->d_tag != DT_NULL; d++)
		switch (d->d_tag) {
		case DT_SYMTAB:
			o->sym = (void *)place(m, d->d_un.d_ptr);
			break;
		case DT_STRTAB:
			o->str = (void *)place(m, d->d_un.d_ptr);
			break;
		case DT_JMPREL:
			o->plt = (void *)place(m, d->d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			o->plt_len = d->d_un.d_val;
			break;
		case DT_RELA:
			o->rela = (void *)place(m, d->d_un.d_ptr);
			break;
		case DT_RELASZ:
			o->rela_len = d->d_un.d_val;
			break;
		}
}

static void read_relro(struct object *o)
{
	const uintptr_t page = (uintptr_t)getpagesize();
	const ElfW(Ehdr) * e;
	const ElfW(Phdr) * p;
	Dl_info info;
	int i;

	if (!dladdr(o->map->l_ld, &info) || !info.dli_fbase)
		return;
	e = info.dli_fbase;
	if (memcmp(e->e_ident, ELFMAG, SELFMAG))
		return;
	p = (void *)((uintptr_t)e + e->e_phoff);
	for (i = 0; i < e->e_phnum; i++)
		if (p[i].p_type == PT_GNU_RELRO) {
			o->relro = (o->map->l_addr + p[i].p_vaddr) &
				   ~(page - 1);
			o->relro_end =
				(o->map->l_addr + p[i].p_vaddr + p[i].p_memsz) &
				~(page - 1);
		}
}

static void put(const struct object *o, uintptr_t at, const void *value)
{
	const uintptr_t page = (uintptr_t)getpagesize();
	bool sealed = at >= o->relro && at < o->relro_end;

	if (sealed &&
	    mprotect((void *)(at & ~(page - 1)), page, PROT_READ | PROT_WRITE))
		return;
	__atomic_store_n((uintptr_t *)at, (uintptr_t)value, __ATOMIC_RELEASE);
	if (sealed)
		mprotect((void *)(at & ~(page - 1)), page, PROT_READ);
}

/*
 * A reference that is not resolved yet (a slot of RTLD_LAZY) would be found
 * where dlsym() finds it from there on.
 */
static void rebind_one(const struct object *o, const ElfW(Rela) * r)
{
	const uintptr_t at = o->map->l_addr + r->r_offset;
	const ElfW(Sym) *sym = &o->sym[ELF64_R_SYM(r->r_info)];
	const char *name = o->str + sym->st_name;
	const void *ours, *libcs;

	if (sym->st_shndx != SHN_UNDEF || !listed(name))
		return;
	ours = dlsym(RTLD_DEFAULT, name); /* or of a library before ours */
	libcs = dlsym(RTLD_NEXT, name);
	if (!ours || !libcs)
		return;
	if (*(const uintptr_t *)at == (uintptr_t)libcs ||
	    (ELF64_R_TYPE(r->r_info) == REL_SLOT &&
	     *(const uintptr_t *)at != (uintptr_t)ours &&
	     dlsym(o->map, name) == libcs))
		put(o, at, ours);
}

static void rebind(struct link_map *map)
{
	struct object o = { .map = map };
	size_t i;

	read_dynamic(&o);
	read_relro(&o);
	if (!o.sym || !o.str)
		return;
	for (i = 0; o.plt && i < o.plt_len / sizeof(*o.plt); i++)
		if (ELF64_R_TYPE(o.plt[i].r_info) == REL_SLOT)
			rebind_one(&o, &o.plt[i]);
	for (i = 0; o.rela && i < o.rela_len / sizeof(*o.rela); i++)
		if (ELF64_R_TYPE(o.rela[i].r_info) == REL_GLOB ||
		    (ELF64_R_TYPE(o.rela[i].r_info) == REL_WORD &&
		     !o.rela[i].r_addend))
			rebind_one(&o, &o.rela[i]);
	log_debug("deepbind: %s has libsdp's calls", map->l_name);
}

/* --- what a dlopen() brought in --------------------------------------------- */

struct loaded {
	size_t n, room;
	const void **ld; /* dynamic sections: one for each object */
};

static int note(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct loaded *l = arg;
	const void **more;
	int i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		if (l->n == l->room) {
			more = realloc(l->ld, (l->room + 256) * sizeof(*more));
			if (!more)
				return 1;
			l->ld = more;
			l->room += 256;
		}
		l->ld[l->n++] =
			(void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	}
	return 0;
}

static bool has(const struct loaded *l, const void *ld)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		if (l->ld[i] == ld)
			return true;
	return false;
}

/* This object and what it needs, each once, as far as it is new. */
static void rebind_new(struct link_map *map, struct loaded *old)
{
	const char *str = NULL;
	const ElfW(Dyn) * d;
	void *dep;

	if (has(old, map->l_ld) || old->n == old->room)
		return;
	old->ld[old->n++] = map->l_ld;
	rebind(map);
	for (d = map->l_ld; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB)
			str = (void *)place(map, d->d_un.d_ptr);
	for (d = map->l_ld; str && d->d_tag != DT_NULL; d++) {
		if (d->d_tag != DT_NEEDED)
			continue;
		dep = real_dlopen(str + d->d_un.d_val, RTLD_LAZY | RTLD_NOLOAD);
		if (!dep)
			continue;
		rebind_new(dep, old);
		dlclose(dep); /* its user keeps it */
	}
}

/* --- where the caller would have found it ----------------------------------- */

/*
 * Does the object that called have a search path of its own? Its map, or NULL.
 */
static struct link_map *with_path(const void *caller)
{
	struct link_map *map = NULL;
	const ElfW(Dyn) * d;
	Dl_info info;

	if (!dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
		return NULL;
	for (d = map->l_ld; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_RPATH || d->d_tag == DT_RUNPATH)
			return map;
	return NULL;
}

static void *open_in(const char *dir, size_t len, const char *file, int mode)
{
	size_t n = strlen(file);
	char *path = malloc(len + n + 2);
	void *h = NULL;

	if (!path)
		return NULL;
	memcpy(path, dir, len);
	path[len] = '/';
	memcpy(path + len + 1, file, n + 1);
	if (!access(path, R_OK))
		h = real_dlopen(path, mode);
	free(path);
	return h;
}

static void *search(struct link_map *map, const char *file, int mode)
{
	Dl_serinfo size, *path;
	void *h = real_dlopen(file, mode | RTLD_NOLOAD);
	unsigned int i;

	if (h || dlinfo(map, RTLD_DI_SERINFOSIZE, &size))
		return h;
	path = malloc(size.dls_size);
	if (!path)
		return NULL;
	*path = size;
	if (!dlinfo(map, RTLD_DI_SERINFOSIZE, path) &&
	    !dlinfo(map, RTLD_DI_SERINFO, path))
		for (i = 0; !h && i < path->dls_cnt; i++)
			h = open_in(path->dls_serpath[i].dls_name,
				    strlen(path->dls_serpath[i].dls_name), file,
				    mode);
	free(path);
	return h;
}

/* $ORIGIN is the directory of the object that called. */
static void *open_origin(const char *file, int mode, const void *caller)
{
	static const char *const origin[] = { "$ORIGIN/", "${ORIGIN}/" };
	const char *end;
	Dl_info info;
	size_t i, n;

	for (i = 0; i < 2; i++) {
		n = strlen(origin[i]);
		if (strncmp(file, origin[i], n) || !dladdr(caller, &info))
			continue;
		end = strrchr(info.dli_fname, '/');
		if (end)
			return open_in(info.dli_fname,
				       (size_t)(end - info.dli_fname), file + n,
				       mode);
		return open_in(".", 1, file + n, mode);
	}
	return NULL;
}

static void *open_as(const char *file, int mode, const void *caller)
{
	struct link_map *map;
	void *h = NULL;

	if (file && *file == '$') {
		h = open_origin(file, mode, caller);
	} else if (file && !strchr(file, '/')) {
		map = with_path(caller);
		h = map ? search(map, file, mode) : NULL;
	}
	return h ? h : real_dlopen(file, mode);
}

/* Called by the assembler below alone. */
void *deepbind_open(const char *file, int mode, const void *caller);

/* dlopen() with RTLD_DEEPBIND, by the code at `caller`. */
void *deepbind_open(const char *file, int mode, const void *caller)
{
	struct loaded old = { 0 };
	void *h;

	if (!preload_off)
		dl_iterate_phdr(note, &old);
	h = open_as(file, mode, caller);
	if (h && old.n) {
		const void **more =
			realloc(old.ld, (old.n + 256) * sizeof(*more));

		if (more) {
			old.ld = more;
			old.room = old.n + 256;
			rebind_new(h, &old);
		}
	}
	free(old.ld);
	return h;
}

static void *no_dlopen(const char *file, int mode)
{
	(void)file;
	(void)mode;
	return NULL;
}

/* The constructors of other libraries may run before ours. */
void deepbind_resolve(void)
{
	int keep = errno;
	void *p = dlsym(RTLD_NEXT, "dlopen");

	if (p)
		*(void **)&real_dlopen = p;
	else
		real_dlopen = no_dlopen;
	errno = keep;
}

#if defined(__x86_64__)
__asm__(".text\n"
	".globl dlopen\n"
	".type dlopen, @function\n"
	"dlopen:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	cmpq $0, real_dlopen(%rip)\n"
	"	jne 1f\n"
	"	pushq %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	pushq %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	subq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call deepbind_resolve\n"
	"	addq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"1:	testl $8, %esi\n" /* RTLD_DEEPBIND */
	"	jne 2f\n"
	"	jmpq *real_dlopen(%rip)\n"
	"2:	movq (%rsp), %rdx\n"
	"	jmp deepbind_open\n"
	"	.cfi_endproc\n"
	".size dlopen, .-dlopen\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl dlopen\n"
	".type dlopen, %function\n"
	"dlopen:\n"
	"	.cfi_startproc\n"
	"	hint 34\n" /* bti c */
	"	adrp x16, real_dlopen\n"
	"	ldr x16, [x16, :lo12:real_dlopen]\n"
	"	cbnz x16, 1f\n"
	"	stp x0, x1, [sp, -32]!\n"
	"	.cfi_adjust_cfa_offset 32\n"
	"	str x30, [sp, 16]\n"
	"	.cfi_rel_offset x30, 16\n"
	"	bl deepbind_resolve\n"
	"	ldr x30, [sp, 16]\n"
	"	.cfi_restore x30\n"
	"	ldp x0, x1, [sp], 32\n"
	"	.cfi_adjust_cfa_offset -32\n"
	"	adrp x16, real_dlopen\n"
	"	ldr x16, [x16, :lo12:real_dlopen]\n"
	"1:	tbnz w1, 3, 2f\n" /* RTLD_DEEPBIND */
	"	br x16\n"
	"2:	mov x2, x30\n"
	"	b deepbind_open\n"
	"	.cfi_endproc\n"
	".size dlopen, .-dlopen\n");
#endif
