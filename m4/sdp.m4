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
