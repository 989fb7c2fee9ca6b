/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How much of a simulated world to search under a sanitizer: it finds what it
 * looks for on each path, whatever the seed, and takes ten to forty times as
 * long. The plain build searches all.
 */
#ifndef LIBSDP_TESTS_SCALE_H
#define LIBSDP_TESTS_SCALE_H

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIM_TSAN
#endif
#if __has_feature(address_sanitizer)
#define SIM_ASAN
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define SIM_TSAN
#endif
#ifdef __SANITIZE_ADDRESS__
#define SIM_ASAN
#endif

/* Of n seeds, so many are tried. */
#if defined(SIM_TSAN) || defined(SIM_ASAN)
#define SIM_SEEDS(n) ((n) / 10)
#else
#define SIM_SEEDS(n) (n)
#endif

#endif
