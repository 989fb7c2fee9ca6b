# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LTLIBRARIES += libsocket.la
libsocket_la_CFLAGS = $(AM_CFLAGS) -fexceptions
libsocket_la_SOURCES = \
	src/socket/alive.c \
	src/socket/bed.c \
	src/socket/bridge.c src/socket/bridge.h \
	src/socket/bridge_flow.c \
	src/socket/bridge_gate.c \
	src/socket/bridge_run.c \
	src/socket/bridged.h \
	src/socket/budget.c src/socket/budget.h \
	src/socket/close.c \
	src/socket/diag.c \
	src/socket/fdhide.c \
	src/socket/window.c src/socket/window.h \
	src/socket/fdshare.c src/socket/fdshare.h \
	src/socket/fdyield.c \
	src/socket/holdback.c src/socket/holdback.h \
	src/socket/holder.c src/socket/holder.h \
	src/socket/home.c \
	src/socket/hush.c src/socket/hush.h \
	src/socket/impl.h \
	src/socket/inside.c \
	src/socket/ioctl.c \
	src/socket/iov.c src/socket/iov.h \
	src/socket/keep.c \
	src/socket/larder.c \
	src/socket/lift.c \
	src/socket/load.h \
	src/socket/mend.c \
	src/socket/mend_keep.c \
	src/socket/move.c \
	src/socket/option.c src/socket/option.h \
	src/socket/option.def \
	src/socket/option_list.c \
	src/socket/order.c src/socket/order.h \
	src/socket/pair.c src/socket/pair.h \
	src/socket/peek.c src/socket/peek.h \
	src/socket/pump.c \
	src/socket/raw.c \
	src/socket/raw.h \
	src/socket/rdma.c src/socket/rdma.h \
	src/socket/rdma_ahead.c \
	src/socket/rdma_answer.c \
	src/socket/rdma_back.c \
	src/socket/rdma_desk.c \
	src/socket/rdma_ear.c src/socket/rdma_ear.h \
	src/socket/rdma_end.c src/socket/rdma_end.h \
	src/socket/rdma_link.c \
	src/socket/rdma_serve.c \
	src/socket/rdma_state.h \
	src/socket/rdma_room.h \
	src/socket/rdma_size.c src/socket/rdma_size.h \
	src/socket/rdma_token.c \
	src/socket/rdma_turn.c src/socket/rdma_turn.h \
	src/socket/rdma_mod.c \
	src/socket/rdma_open.c \
	src/socket/rdma_proof.c \
	src/socket/ready.c \
	src/socket/reap.c \
	src/socket/recv.c \
	src/socket/ring.c \
	src/socket/row.c \
	src/socket/send.c \
	src/socket/sendfile.c src/socket/sendfile.h \
	src/socket/service.c src/socket/service.h \
	src/socket/shutdown.c \
	src/socket/sleep.c src/socket/sleep.h \
	src/socket/sock.c src/socket/sock.h \
	src/socket/spin.c \
	src/socket/standin.c \
	src/socket/state.h \
	src/socket/store.c \
	src/socket/switch.c \
	src/socket/told.c \
	src/socket/told_ask.c \
	src/socket/vouch.c \
	src/socket/wait.c \
	src/socket/wait.h \
	src/socket/want.h \
	src/socket/exit.c \
	src/socket/ident.c \
	src/socket/leave.c \
	src/socket/mark.c \
	src/socket/nowhere.c \
	src/socket/path.c \
	src/socket/process.c \
	src/socket/rdma_fate.c \
	src/socket/rdma_over.c \
	src/socket/rdma_woken.c \
	src/socket/reports.h \
	src/socket/registry.c src/socket/registry.h \
	src/socket/rdma_step.c \
	src/socket/zc_wait.c \
	src/socket/zcopy.c src/socket/zcopy.h \
	src/socket/zcopy_rdma.c \
	src/socket/zcopy_way.c \
	src/socket/zread_rdma.c \
	src/socket/zsink.c \
	src/socket/zsink_rdma.c
