/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Cancellation and exceptions unwind through the wrappers, by the code in
 * libgcc_s. Linked to it, every program under the library would load it, and
 * none would start where there is none (the smallest containers). But one that
 * unwinds has it: the C library loads it to cancel a thread. So what the
 * compiler refers to is found when it is used, in what is loaded by then.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "preload/preload.h"

/*
 * As the unwinder's ABI has them. Its own header would export them, and other
 * libraries would find these first.
 */
struct _Unwind_Exception;
struct _Unwind_Context;
#define CONTINUE_UNWIND 8

int __gcc_personality_v0(int version, int actions, uint64_t class,
			 struct _Unwind_Exception *exception,
			 struct _Unwind_Context *context);
void _Unwind_Resume(struct _Unwind_Exception *exception)
	__attribute__((noreturn));

static void *unwinder(const char *name)
{
	static void *lib;
	void *h = __atomic_load_n(&lib, __ATOMIC_RELAXED);

	if (!h) {
		if (!real_dlopen)
			deepbind_resolve();
		h = real_dlopen("libgcc_s.so.1", RTLD_LAZY);
		__atomic_store_n(&lib, h, __ATOMIC_RELAXED);
	}
	return h ? dlsym(h, name) : NULL;
}

/* The cleanup of a frame: none without that library. */
int __gcc_personality_v0(int version, int actions, uint64_t class,
			 struct _Unwind_Exception *exception,
			 struct _Unwind_Context *context)
{
	__typeof__(__gcc_personality_v0) *f;

	*(void **)&f = unwinder("__gcc_personality_v0");
	return f ? f(version, actions, class, exception, context) :
		   CONTINUE_UNWIND;
}

/* On behind a cleanup, which was reached by the function above. */
void _Unwind_Resume(struct _Unwind_Exception *exception)
{
	__typeof__(_Unwind_Resume) *f;

	*(void **)&f = unwinder("_Unwind_Resume");
	if (f)
		f(exception);
	abort();
}
