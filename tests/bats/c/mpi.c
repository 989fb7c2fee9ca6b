/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every rank gets every rank's bytes, in sizes from one byte to 2 MiB. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 20

static void check(const char *all, size_t len, int ranks, int round)
{
	int r;

	for (r = 0; r < ranks; r++) {
		const char *p = all + (size_t)r * len;

		if (p[0] != (char)(r + round) || p[len - 1] != p[0])
			MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static void gather(int len, int rank, int ranks)
{
	char *own = malloc((size_t)len);
	char *all = malloc((size_t)len * (size_t)ranks);
	int i;

	for (i = 0; i < ROUNDS; i++) {
		memset(own, rank + i, (size_t)len);
		MPI_Allgather(own, len, MPI_CHAR, all, len, MPI_CHAR,
			      MPI_COMM_WORLD);
		check(all, (size_t)len, ranks, i);
	}
	free(own);
	free(all);
}

int main(int argc, char **argv)
{
	int rank, ranks, len;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (len = 1; len <= 1 << 21; len *= 8)
		gather(len, rank, ranks);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		printf("ok\n");
	MPI_Finalize();
	return 0;
}
