/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the programs in this folder have in common: PROGRAM CASE CARD CARD
 *
 * Each case is a function that two processes run: the server on the first card, the client on the second. A process that finds something wrong says where
 * and ends with 1. */
#ifndef FERROWIRE_TESTS_SIDE_H
#define FERROWIRE_TESTS_SIDE_H

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "declarations.h"

#define GRH 40
/* Seconds for what a case waits for. */
#define PATIENCE 60
/* Time of a process, which then ends: a case that waits for ever must not hold its pipes. */
#define LIMIT (2 * PATIENCE)

static const char *side_name;

static inline void wrong(int line, const char *what)
{
	fprintf(stderr, "%s, line %d: %s (errno %d, %s)\n", side_name, line, what, errno, strerror(errno));
	_exit(1);
}

#define CHECK(condition) do { if (!(condition)) wrong(__LINE__, #condition); } while (0)
#define IS(call, number) do { long result_ = (call); if (result_ != (long)(number)) { \
	fprintf(stderr, "%ld, not %ld: ", result_, (long)(number)); wrong(__LINE__, #call); } } while (0)

/* What rdma-core's headers have inline. */
#define ops(object) ((object)->context->ops)
#define post_send(qp, wr, bad) ops(qp).post_send(qp, wr, bad)
#define post_recv(qp, wr, bad) ops(qp).post_recv(qp, wr, bad)

/* What one end of a queue pair says of itself to the other. */
struct end {
	ibv_gid gid;
	uint64_t address;
	uint32_t qpn, psn, rkey, number;
};

/* One of the two processes. */
struct side {
	/* Whether it is the server, and its socket to the other one. */
	int server, peer;
	/* Of the server: the signal by which the client ends, if not well. */
	int signal;
	/* The index of the GID that the case goes by, and the time-out code of its queue pairs if it is not 14. */
	int gid, timeout;
	ibv_context *ctx;
	ibv_pd *pd;
	ibv_cq *cq;
	ibv_mr *mr;
	unsigned char *memory;
	struct end mine, theirs;
	/* Of programs with connections. */
	rdma_event_channel *channel;
};

struct test_case {
	const char *name;
	void (*run)(struct side *);
};

static inline void tell(struct side *s, const void *what, size_t bytes)
{
	CHECK(write(s->peer, what, bytes) == (ssize_t)bytes);
}

static inline void hear(struct side *s, void *what, size_t bytes)
{
	size_t have = 0;

	while (have < bytes) {
		ssize_t more = read(s->peer, (char *)what + have, bytes - have);

		CHECK(more > 0);
		have += more;
	}
}

/* Neither goes on before the other is there. */
static inline void meet(struct side *s)
{
	char mark = 'm', other = 0;

	tell(s, &mark, 1);
	hear(s, &other, 1);
	CHECK(other == mark);
}

static inline void fill(unsigned char *at, int bytes, int seed)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (unsigned char)(i * 7 + seed);
}

static inline void same(const unsigned char *at, int bytes, int seed)
{
	for (int i = 0; i < bytes; i++)
		IS(at[i], (unsigned char)(i * 7 + seed));
}

/* The program: runs the case of the first argument in both processes, each after `begin` if there is one. */
static inline int run_case(int argc, char **argv, const struct test_case *cases, size_t count,
	void (*begin)(struct side *))
{
	int pair[2], status = -1;
	struct side side = { 0 };

	side_name = "program";
	CHECK(argc == 4);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid_t child = fork();
	CHECK(child >= 0);
	alarm(LIMIT);
	side.server = child > 0;
	side_name = side.server ? "server" : "client";
	side.peer = pair[side.server ? 0 : 1];
	close(pair[side.server ? 1 : 0]);
	setenv("FERROWIRE_DEVICE", argv[side.server ? 2 : 3], 1);
	setenv("FERROWIRE_OTHER", argv[side.server ? 3 : 2], 1);
	if (begin)
		begin(&side);
	for (size_t i = 0; i < count; i++) {
		if (strcmp(cases[i].name, argv[1]))
			continue;
		cases[i].run(&side);
		if (!side.server)
			return 0;
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(side.signal ? WIFSIGNALED(status) && WTERMSIG(status) == side.signal : status == 0);
		return 0;
	}
	fprintf(stderr, "no case %s\n", argv[1]);
	return 2;
}

#endif
