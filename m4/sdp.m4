# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

# SDP_ADD_CFLAG(FLAG): append FLAG to SDP_CFLAGS when the compiler takes it.
AC_DEFUN([SDP_ADD_CFLAG], [
	AC_MSG_CHECKING([whether $CC takes $1])
	sdp_save_CFLAGS=$CFLAGS
	CFLAGS="$CFLAGS -Werror $1"
	AC_COMPILE_IFELSE([AC_LANG_PROGRAM()],
		[SDP_CFLAGS="$SDP_CFLAGS $1"
		 AC_MSG_RESULT([yes])],
		[AC_MSG_RESULT([no])])
	CFLAGS=$sdp_save_CFLAGS
])

# SDP_ADD_LDFLAG(VARIABLE, FLAG): the same of the linker.
AC_DEFUN([SDP_ADD_LDFLAG], [
	AC_MSG_CHECKING([whether $CC links with $2])
	sdp_save_LDFLAGS=$LDFLAGS
	LDFLAGS="$LDFLAGS $2"
	AC_LINK_IFELSE([AC_LANG_PROGRAM()],
		[$1="$$1 $2"
		 AC_MSG_RESULT([yes])],
		[AC_MSG_RESULT([no])])
	LDFLAGS=$sdp_save_LDFLAGS
])

# SDP_HARDEN: SDP_HARD_LDFLAGS for what is installed, SDP_GUARD_CFLAGS for rooms
# of the library off the path of every call, SDP_TOOL_CFLAGS and
# SDP_TOOL_LDFLAGS for the tools; SECURITY.md tells why the library has not all
# of it. Where a stack's guard is no word of the thread it is a name of the
# linker's, which the library must not need. Fortified calls want an optimiser
# and no sanitizer.
AC_DEFUN([SDP_HARDEN], [
	SDP_HARD_LDFLAGS=
	m4_foreach_w([sdp_flag], [-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack],
		[SDP_ADD_LDFLAG([SDP_HARD_LDFLAGS], [sdp_flag])])
	SDP_TOOL_LDFLAGS=$SDP_HARD_LDFLAGS
	SDP_ADD_LDFLAG([SDP_TOOL_LDFLAGS], [-pie])
	m4_foreach_w([sdp_flag],
		[-fstack-clash-protection -fcf-protection=return],
		[SDP_ADD_CFLAG([sdp_flag])])
	sdp_lib_CFLAGS=$SDP_CFLAGS
	SDP_CFLAGS=
	SDP_ADD_CFLAG([-fstack-protector-strong])
	AS_CASE([$host_cpu], [x86_64], [SDP_GUARD_CFLAGS=$SDP_CFLAGS],
		[SDP_GUARD_CFLAGS=])
	m4_foreach_w([sdp_flag],
		[-fPIE -fcf-protection -mbranch-protection=standard],
		[SDP_ADD_CFLAG([sdp_flag])])
	AS_IF([test "x$enable_sanitizer" = xno],
		[AC_MSG_CHECKING([whether $CC fortifies])
		 sdp_save_CFLAGS=$CFLAGS
		 sdp_flag="-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"
		 CFLAGS="$CFLAGS -Werror $sdp_flag"
		 AC_COMPILE_IFELSE([AC_LANG_PROGRAM([#include <stdio.h>])],
			[SDP_CFLAGS="$SDP_CFLAGS $sdp_flag"
			 AC_MSG_RESULT([yes])],
			[AC_MSG_RESULT([no])])
		 CFLAGS=$sdp_save_CFLAGS])
	SDP_TOOL_CFLAGS=$SDP_CFLAGS
	SDP_CFLAGS=$sdp_lib_CFLAGS
	AC_SUBST([SDP_HARD_LDFLAGS])
	AC_SUBST([SDP_GUARD_CFLAGS])
	AC_SUBST([SDP_TOOL_CFLAGS])
	AC_SUBST([SDP_TOOL_LDFLAGS])
])

# SDP_SANITIZER: --enable-sanitizer=LIST, handed to -fsanitize. Undefined
# symbols are errors in a plain build only: a sanitized shared library leaves
# the runtime's names to the program that loads it.
AC_DEFUN([SDP_SANITIZER], [
	AC_ARG_ENABLE([sanitizer],
		[AS_HELP_STRING([--enable-sanitizer=LIST],
			[address, undefined, thread, or a comma list])],
		[], [enable_sanitizer=no])
	AS_CASE([$enable_sanitizer],
	[no], [SDP_LDFLAGS="-Wl,-z,defs"],
	[yes], [AC_MSG_ERROR([--enable-sanitizer needs a value])],
	[sdp_flag="-fsanitize=$enable_sanitizer"
	 AC_MSG_CHECKING([whether $CC links with $sdp_flag])
	 sdp_save_CFLAGS=$CFLAGS
	 CFLAGS="$CFLAGS $sdp_flag"
	 AC_LINK_IFELSE([AC_LANG_PROGRAM()],
		[AC_MSG_RESULT([yes])],
		[AC_MSG_RESULT([no])
		 AC_MSG_ERROR([$CC cannot link with $sdp_flag])])
	 CFLAGS=$sdp_save_CFLAGS
	 SDP_CFLAGS="$SDP_CFLAGS $sdp_flag -fno-omit-frame-pointer"
	 SDP_CFLAGS="$SDP_CFLAGS -fno-sanitize-recover=all"
	 SDP_LDFLAGS="$sdp_flag"])
])

# SDP_FIND(NAME, MODULES, yes|no|check): pkg-config look-up; sets
# NAME_CFLAGS, NAME_LIBS, sdp_have_NAME and the automake condition HAVE_NAME.
AC_DEFUN([SDP_FIND], [
	sdp_have_$1=no
	AS_IF([test "x$3" != xno],
		[PKG_CHECK_MODULES([$1], [$2], [sdp_have_$1=yes],
			[AS_IF([test "x$3" = xyes],
				[AC_MSG_ERROR([$2 not found])])])])
	AM_CONDITIONAL([HAVE_$1], [test "x$sdp_have_$1" = xyes])
])
