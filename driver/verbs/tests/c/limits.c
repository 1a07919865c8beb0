/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What happens at the limits of a card and at the ends of programs: see `side.h`. Most cases are of one process, whose queue pairs are connected with each other
 * on one card; the other process ends at once. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>

#include "queues.h"

/* Queue pairs that are made here differ in their queues. */
static ibv_qp *qp_of(struct side *s, ibv_cq *send_cq, ibv_cq *recv_cq, ibv_srq *srq, int sends, int receives)
{
	ibv_qp_init_attr init = { .qp_context = s, .send_cq = send_cq, .recv_cq = recv_cq, .srq = srq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = sends, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1 } };
	ibv_qp *qp = ibv_create_qp(s->pd, &init);

	CHECK(qp);
	IS(init.cap.max_send_wr, sends);
	to_init(s, qp);
	return qp;
}

/* The next changes of state are of `qp`, whose peer is `other` of this process. */
static void aim(struct side *s, const ibv_qp *qp, const ibv_qp *other)
{
	s->mine.psn = 0x123400 + qp->qp_num;
	s->theirs = s->mine;
	s->theirs.qpn = other->qp_num;
	s->theirs.psn = 0x123400 + other->qp_num;
}

static void join(struct side *s, ibv_qp *a, ibv_qp *b)
{
	aim(s, a, b);
	to_rts(s, a);
	if (a == b)
		return;
	aim(s, b, a);
	to_rts(s, b);
}

static void no_event(struct side *s)
{
	struct pollfd file = { .fd = s->ctx->async_fd, .events = POLLIN };

	IS(poll(&file, 1, 0), 0);
}

static ibv_qp_state state_of(ibv_qp *qp)
{
	ibv_qp_attr attr;
	ibv_qp_init_attr init;

	ZERO(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

/* To the test that runs this. */
static void say(const char *line)
{
	printf("%s\n", line);
	fflush(stdout);
}

/* A WRITE without bytes. */
static ibv_send_wr nothing_to(struct side *s, uint64_t id)
{
	ibv_send_wr wr = request(id, IBV_WR_RDMA_WRITE, NULL, 0);

	wr.wr.rdma = (ibv_send_wr_rdma){ s->mine.address, s->mr->rkey };
	return wr;
}

/* A WRITE without bytes goes and completes. */
static void works(struct side *s, ibv_qp *qp, ibv_cq *cq)
{
	static uint64_t id;
	ibv_send_wr wr = nothing_to(s, ++id);
	ibv_wc wc;

	post(qp, &wr);
	wc = one(cq);
	good(&wc, id, IBV_WC_RDMA_WRITE);
}

/* A queue that is kept full. The requests of its two queue pairs are together as many as it has entries, and are posted as soon as there is room: that is before
 * the card learns that entries were taken. */
struct full {
	struct side *s;
	ibv_cq *cq;
	ibv_qp *qp[2];
	/* The send queues, and what was posted to each and polled of each. */
	int queues, room[2];
	long total, posted[2], polled[2];
};

static long outstanding(const struct full *f, int which)
{
	return f->posted[which] - __atomic_load_n(&f->polled[which], __ATOMIC_ACQUIRE);
}

static int post_one(struct full *f, int which)
{
	ibv_send_wr wr = nothing_to(f->s, f->posted[which]), *bad;
	int result = post_send(f->qp[which], &wr, &bad);

	CHECK(result == 0 || result == ENOMEM);
	f->posted[which] += !result;
	return !result;
}

static void *keeps_full(void *argument)
{
	struct full *f = argument;

	while (f->posted[0] + f->posted[1] < f->total) {
		int some = 0;

		for (int i = 0; i < f->queues && f->posted[0] + f->posted[1] < f->total; i++)
			/* The smallest queue has fewer entries than its send queue. */
			if (f->queues > 1 || outstanding(f, i) < f->cq->cqe)
				some |= post_one(f, i);
		if (!some)
			sched_yield();
	}
	return NULL;
}

/* Polls once: the completions of each queue pair come in order. */
static int poll_some(struct full *f, int most)
{
	ibv_wc wc[32];
	int count = ops(f->cq).poll_cq(f->cq, most < 32 ? most : 32, wc);

	CHECK(count >= 0);
	for (int i = 0; i < count; i++) {
		int which = wc[i].qp_num != f->qp[0]->qp_num;

		good(&wc[i], f->polled[which], IBV_WC_RDMA_WRITE);
		__atomic_fetch_add(&f->polled[which], 1, __ATOMIC_RELEASE);
	}
	return count;
}

static void poll_all(struct full *f, int count)
{
	time_t end = time(NULL) + PATIENCE;

	while (count) {
		count -= poll_some(f, count);
		CHECK(time(NULL) < end);
	}
}

static void full_of(struct side *s, int wanted, int cqe, long total)
{
	struct full f = { .s = s, .total = total, .queues = cqe > 1 ? 2 : 1 };
	int ring = cqe > 1 ? cqe / 3 * 4 : 2, stride = ring > 128 ? ring / 16 + 1 : 1, turn = 0;
	ibv_qp *other = qp_of(s, s->cq, s->cq, NULL, 2, 0);
	pthread_t thread;

	join(s, other, other);
	CHECK(f.cq = ibv_create_cq(s->ctx, wanted, NULL, NULL, 0));
	IS(f.cq->cqe, cqe);
	for (int i = 0; i < f.queues; i++) {
		/* Half and a quarter of the ring. */
		f.room[i] = cqe > 1 ? ring / 2 >> i : 2;
		f.qp[i] = qp_of(s, f.cq, f.cq, NULL, f.room[i], 0);
		join(s, f.qp[i], f.qp[i]);
	}
	/* One thread posts while another one polls. */
	CHECK(!pthread_create(&thread, NULL, keeps_full, &f));
	time_t end = time(NULL) + PATIENCE;

	while (f.polled[0] + f.polled[1] < total) {
		if (!poll_some(&f, 1 + turn++ % 32))
			sched_yield();
		CHECK(time(NULL) < end);
	}
	CHECK(!pthread_join(thread, NULL));
	IS(poll_some(&f, 32), 0);
	no_event(s);
	/* A program that polls stops at each place of the ring, and the queue fills up meanwhile. */
	for (int at = 0; at < ring + ring / 4; at += stride) {
		for (int i = 0; i < f.queues; i++)
			while (outstanding(&f, i) < (f.queues > 1 ? f.room[i] : cqe))
				CHECK(post_one(&f, i));
		IS(outstanding(&f, 0) + outstanding(&f, 1), cqe);
		/* What another queue pair sends after these completes after these. */
		works(s, other, s->cq);
		poll_all(&f, stride < cqe ? stride : cqe);
	}
	poll_all(&f, outstanding(&f, 0) + outstanding(&f, 1));
	IS(poll_some(&f, 32), 0);
	no_event(s);
	ZERO(ibv_destroy_qp(other));
	for (int i = 0; i < f.queues; i++)
		ZERO(ibv_destroy_qp(f.qp[i]));
	ZERO(ibv_destroy_cq(f.cq));
}

static void full(struct side *s)
{
	static const struct {
		int wanted, cqe;
		long total;
	} sizes[] = { { 1, 1, 100 }, { 6, 6, 2000 }, { 70, 96, 30000 }, { 3000, 3072, 50000 }, { 12000, 12288, 60000 } };

	if (!s->server)
		return;
	/* A full send queue is what this is about, and not worth a line. */
	setenv("FERROWIRE_LOG", "0", 1);
	set_up(s, 16);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		full_of(s, sizes[i].wanted, sizes[i].cqe, sizes[i].total);
	tear_down(s);
}

/* An acknowledgement by another thread, for which a destruction waits. */
struct late {
	ibv_async_event event;
	int done;
};

static void *acknowledges(void *argument)
{
	struct late *late = argument;

	usleep(30 * 1000);
	__atomic_store_n(&late->done, 1, __ATOMIC_RELEASE);
	ibv_ack_async_event(&late->event);
	return NULL;
}

/* More completions than the ring holds, and no thread polls. */
static void overrun(struct side *s)
{
	ibv_async_event event;
	ibv_comp_channel *channel;
	struct late late = { 0 };
	pthread_t thread;
	ibv_cq *cq;
	ibv_qp *fast, *idle, *apart;
	ibv_wc wc[64];
	ibv_send_wr wr, *bad;
	ibv_recv_wr recv = { .wr_id = 3 }, *bad_recv;
	int ring = 32, count = 0, more;

	if (!s->server)
		return;
	set_up(s, 16);
	CHECK(!fcntl(s->ctx->async_fd, F_SETFL, O_NONBLOCK));
	CHECK(channel = ibv_create_comp_channel(s->ctx));
	CHECK(cq = ibv_create_cq(s->ctx, 24, NULL, channel, 0));
	IS(cq->cqe, 24);
	fast = qp_of(s, cq, cq, NULL, 64, 4);
	join(s, fast, fast);
	/* One that has only its receives there, and one that has nothing there. */
	idle = qp_of(s, s->cq, cq, NULL, 4, 4);
	join(s, idle, idle);
	apart = qp_of(s, s->cq, s->cq, NULL, 4, 4);
	join(s, apart, apart);
	for (int i = 0; i < 64; i++) {
		wr = nothing_to(s, i);
		post(fast, &wr);
	}
	event = next_event(s, IBV_EVENT_CQ_ERR);
	CHECK(event.element.cq == cq);
	late.event = event;
	/* Its queue pairs are in error, and no other. */
	IS(state_of(fast), IBV_QPS_ERR);
	IS(state_of(idle), IBV_QPS_ERR);
	IS(state_of(apart), IBV_QPS_RTS);
	/* What was there before is good, and then each poll says that there is nothing more to come. */
	while ((more = ops(cq).poll_cq(cq, 5, wc)) > 0)
		for (int i = 0; i < more; i++)
			good(&wc[i], count++, IBV_WC_RDMA_WRITE);
	IS(count, ring);
	CHECK(more < 0 && ops(cq).poll_cq(cq, 5, wc) < 0);
	/* A queue pair in error takes requests. Their completions are lost. */
	wr = nothing_to(s, 100);
	IS(post_send(fast, &wr, &bad), 0);
	IS(post_recv(idle, &recv, &bad_recv), 0);
	/* And those that belong in another queue are there. */
	wr.wr_id = 101;
	post(idle, &wr);
	wc[0] = one(s->cq);
	CHECK(wc[0].status == IBV_WC_WR_FLUSH_ERR && wc[0].wr_id == 101);
	CHECK(ops(cq).poll_cq(cq, 5, wc) < 0);
	ZERO(ops(cq).req_notify_cq(cq, 0));
	IS(ibv_get_async_event(s->ctx, &event) == -1 ? errno : 0, EAGAIN);
	no_event(s);
	IS(ibv_destroy_cq(cq), EBUSY);
	ZERO(ibv_destroy_qp(fast));
	ZERO(ibv_destroy_qp(idle));
	CHECK(!pthread_create(&thread, NULL, acknowledges, &late));
	ZERO(ibv_destroy_cq(cq));
	CHECK(__atomic_load_n(&late.done, __ATOMIC_ACQUIRE) && !pthread_join(thread, NULL));
	ZERO(ibv_destroy_comp_channel(channel));
	/* The rest of the card goes on, and a queue with the number of this one is as new. */
	CHECK(cq = ibv_create_cq(s->ctx, 24, NULL, NULL, 0));
	fast = qp_of(s, cq, cq, NULL, 64, 4);
	join(s, fast, fast);
	wr = nothing_to(s, 5);
	post(fast, &wr);
	wc[0] = one(cq);
	good(&wc[0], 5, IBV_WC_RDMA_WRITE);
	post(apart, &wr);
	wc[0] = one(s->cq);
	good(&wc[0], 5, IBV_WC_RDMA_WRITE);
	IS(ops(cq).poll_cq(cq, 5, wc), 0);
	no_event(s);
	ZERO(ibv_destroy_qp(fast));
	ZERO(ibv_destroy_cq(cq));
	ZERO(ibv_destroy_qp(apart));
	tear_down(s);
}

/* The next event is of this kind and of this object, and there is no other one. */
static ibv_async_event only(struct side *s, ibv_event_type type, const void *object)
{
	ibv_async_event event = next_event(s, type), other;

	CHECK((const void *)event.element.qp == object);
	no_event(s);
	errno = 0;
	IS(ibv_get_async_event(s->ctx, &other), -1);
	IS(errno, EAGAIN);
	return event;
}

/* The same; and its object is destroyed after the acknowledgement, and not before. */
static void last(struct side *s, ibv_event_type type, ibv_qp *qp, ibv_srq *srq)
{
	struct late late = { .event = only(s, type, qp ? (void *)qp : (void *)srq) };
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, acknowledges, &late));
	ZERO(qp ? ibv_destroy_qp(qp) : ibv_destroy_srq(srq));
	CHECK(__atomic_load_n(&late.done, __ATOMIC_ACQUIRE));
	CHECK(!pthread_join(thread, NULL));
	no_event(s);
}

static void *waits_for_event(void *argument)
{
	struct side *s = argument;
	static ibv_async_event event;

	IS(ibv_get_async_event(s->ctx, &event), 0);
	return &event;
}

static void asynchronous(struct side *s)
{
	ibv_srq_init_attr srq_init = { .attr = { .max_wr = 8, .max_sge = 1 } };
	ibv_srq_attr limit = { .srq_limit = 2 };
	ibv_qp_attr attr;
	ibv_async_event *event;
	unsigned char *mapped;
	pthread_t thread;
	ibv_qp *a, *b;
	ibv_srq *srq;
	ibv_mr *mr;
	ibv_wc wc;
	ibv_sge sge;
	ibv_send_wr wr;
	ibv_recv_wr recv = { .wr_id = 9 }, *bad;
	void *got;

	if (!s->server)
		return;
	set_up(s, 64);
	/* The first packet that comes before the queue pair is in RTS. A thread waits in the call. */
	CHECK(!pthread_create(&thread, NULL, waits_for_event, s));
	a = qp_of(s, s->cq, s->cq, NULL, 4, 4);
	b = qp_of(s, s->cq, s->cq, NULL, 4, 4);
	aim(s, b, a);
	to_rtr(s, b);
	aim(s, a, b);
	to_rts(s, a);
	for (int i = 0; i < 3; i++) {
		wr = nothing_to(s, i);
		post(a, &wr);
		wc = one(s->cq);
		good(&wc, i, IBV_WC_RDMA_WRITE);
	}
	CHECK(!pthread_join(thread, &got));
	event = got;
	CHECK(event->event_type == IBV_EVENT_COMM_EST && event->element.qp == b);
	ibv_ack_async_event(event);
	aim(s, b, a);
	to_rts(s, b);
	/* From here on no call waits. */
	CHECK(!fcntl(s->ctx->async_fd, F_SETFL, O_NONBLOCK));
	wr = nothing_to(s, 3);
	post(a, &wr);
	wc = one(s->cq);
	good(&wc, 3, IBV_WC_RDMA_WRITE);
	no_event(s);
	/* The send queue drains. */
	attr = (ibv_qp_attr){ .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	ZERO(ibv_modify_qp(a, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	last(s, IBV_EVENT_SQ_DRAINED, a, NULL);
	ZERO(ibv_destroy_qp(b));
	/* The peer asks for what the key does not open, for what the queue pair does not do, and for memory that is not there any more. */
	mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mapped != MAP_FAILED);
	CHECK(mr = ibv_reg_mr(s->pd, mapped, 1 << 20,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	CHECK(!munmap(mapped, 1 << 20));
	for (int i = 0; i < 3; i++) {
		static const struct {
			ibv_event_type type;
			ibv_wc_status status;
		} expected[] = {
			{ IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR }, { IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR },
			{ IBV_EVENT_QP_FATAL, IBV_WC_REM_OP_ERR },
		};

		a = qp_of(s, s->cq, s->cq, NULL, 4, 4);
		b = qp_of(s, s->cq, s->cq, NULL, 4, 4);
		join(s, a, b);
		sge = piece(s, 0, 8);
		wr = request(i, IBV_WR_RDMA_WRITE, &sge, 1);
		if (i == 2)
			wr.wr.rdma = (ibv_send_wr_rdma){ (uintptr_t)mapped, mr->rkey };
		else
			wr.wr.rdma = (ibv_send_wr_rdma){ s->mine.address + (i ? 0 : BYTES), s->mr->rkey };
		attr = (ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .qp_access_flags = i == 1 ? 0 : IBV_ACCESS_REMOTE_WRITE };
		ZERO(ibv_modify_qp(b, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS));
		post(a, &wr);
		wc = one(s->cq);
		IS(wc.status, expected[i].status);
		IS(wc.wr_id, i);
		IS(state_of(b), IBV_QPS_ERR);
		last(s, expected[i].type, b, NULL);
		ZERO(ibv_destroy_qp(a));
	}
	ZERO(ibv_dereg_mr(mr));
	/* A shared queue is nearly empty, and then a queue pair has given back the last that it took. */
	CHECK(srq = ibv_create_srq(s->pd, &srq_init));
	for (int i = 0; i < 3; i++)
		ZERO(ops(srq).post_srq_recv(srq, &recv, &bad));
	ZERO(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	a = qp_of(s, s->cq, s->cq, NULL, 4, 4);
	b = qp_of(s, s->cq, s->cq, srq, 4, 0);
	join(s, a, b);
	for (int i = 0; i < 3; i++) {
		wr = request(9, IBV_WR_SEND, NULL, 0);
		post(a, &wr);
		for (int j = 0; j < 2; j++) {
			wc = one(s->cq);
			good(&wc, 9, wc.qp_num == a->qp_num ? IBV_WC_SEND : IBV_WC_RECV);
		}
	}
	*event = only(s, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	ibv_ack_async_event(event);
	attr = (ibv_qp_attr){ .qp_state = IBV_QPS_ERR };
	ZERO(ibv_modify_qp(b, &attr, IBV_QP_STATE));
	last(s, IBV_EVENT_QP_LAST_WQE_REACHED, b, NULL);
	/* The limit is reached again, when it is set again. */
	ZERO(ops(srq).post_srq_recv(srq, &recv, &bad));
	ZERO(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	b = qp_of(s, s->cq, s->cq, srq, 4, 0);
	ZERO(ibv_destroy_qp(a));
	a = qp_of(s, s->cq, s->cq, NULL, 4, 4);
	join(s, a, b);
	wr = request(9, IBV_WR_SEND, NULL, 0);
	post(a, &wr);
	one(s->cq);
	one(s->cq);
	struct late late = { .event = only(s, IBV_EVENT_SRQ_LIMIT_REACHED, srq) };

	ZERO(ibv_destroy_qp(a));
	ZERO(ibv_destroy_qp(b));
	CHECK(!pthread_create(&thread, NULL, acknowledges, &late));
	ZERO(ibv_destroy_srq(srq));
	CHECK(__atomic_load_n(&late.done, __ATOMIC_ACQUIRE) && !pthread_join(thread, NULL));
	no_event(s);
	tear_down(s);
}

/* The link goes down and up again, as the test that runs this says to the server of the cards. */
static void port(struct side *s)
{
	static const struct {
		ibv_event_type type;
		ibv_port_state state;
	} expected[] = { { IBV_EVENT_PORT_ERR, IBV_PORT_DOWN }, { IBV_EVENT_PORT_ACTIVE, IBV_PORT_ACTIVE } };
	ibv_port_attr attr;
	ibv_send_wr wr;
	struct side second;
	ibv_qp *qp;
	ibv_wc wc;

	/* All retries take two seconds, of which the link is down a few milliseconds. */
	s->timeout = 16;
	set_up(s, 16);
	second = *s;
	CHECK(second.ctx = ibv_open_device(s->ctx->device));
	CHECK(!fcntl(s->ctx->async_fd, F_SETFL, O_NONBLOCK));
	CHECK(!fcntl(second.ctx->async_fd, F_SETFL, O_NONBLOCK));
	qp = connected(s, IBV_QPT_RC, NULL);
	for (int i = 0; i < 2; i++) {
		no_event(s);
		no_event(&second);
		meet(s);
		if (s->server)
			say("ready");
		for (int j = 0; j < 2; j++) {
			struct side *one_of = j ? &second : s;
			ibv_async_event event = next_event(one_of, expected[i].type);

			IS(event.element.port_num, 1);
			errno = 0;
			IS(ibv_get_async_event(one_of->ctx, &event), -1);
			IS(errno, EAGAIN);
			no_event(one_of);
			ibv_ack_async_event(&event);
		}
		ZERO(table(s->ctx)->query_port(s->ctx, 1, &attr, sizeof(attr)));
		IS(attr.state, expected[i].state);
		meet(s);
		/* What is sent while the link is down arrives when it is up again. */
		wr = request(i, IBV_WR_RDMA_WRITE, NULL, 0);
		wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address, s->theirs.rkey };
		post(qp, &wr);
		if (i == 0) {
			usleep(5000);
			IS(ops(s->cq).poll_cq(s->cq, 1, &wc), 0);
		}
	}
	for (int i = 0; i < 2; i++) {
		wc = one(s->cq);
		good(&wc, i, IBV_WC_RDMA_WRITE);
	}
	IS(state_of(qp), IBV_QPS_RTS);
	meet(s);
	ZERO(ibv_destroy_qp(qp));
	IS(ibv_close_device(second.ctx), 0);
	tear_down(s);
}

/* A device is opened again after it was closed, with its objects destroyed before, after, or not at all. */
static void again(struct side *s)
{
	struct side first, second;
	ibv_async_event event;
	ibv_qp *qp, *other;

	if (!s->server)
		return;
	for (int i = 0; i < 20; i++) {
		set_up(s, 16);
		qp = qp_of(s, s->cq, s->cq, NULL, 4, 4);
		join(s, qp, qp);
		works(s, qp, s->cq);
		ZERO(ibv_destroy_qp(qp));
		tear_down(s);
	}
	/* What is left when a context is closed is the process's still: it goes on, beside what is made in the next context. */
	first = *s;
	set_up(&first, 16);
	qp = qp_of(&first, first.cq, first.cq, NULL, 4, 4);
	join(&first, qp, qp);
	IS(ibv_close_device(first.ctx), 0);
	second = *s;
	set_up(&second, 16);
	CHECK(second.ctx != first.ctx && second.mr->rkey != first.mr->rkey);
	other = qp_of(&second, second.cq, second.cq, NULL, 4, 4);
	CHECK(other->qp_num != qp->qp_num);
	join(&second, other, other);
	for (int i = 0; i < 3; i++) {
		works(&first, qp, first.cq);
		works(&second, other, second.cq);
	}
	/* Events are those of the context that is open. */
	ibv_qp_attr drain = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	ZERO(ibv_modify_qp(qp, &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	ZERO(ibv_modify_qp(other, &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	event = next_event(&second, IBV_EVENT_SQ_DRAINED);
	CHECK(event.element.qp == other);
	no_event(&second);
	ibv_ack_async_event(&event);
	/* It can be given back after that, too. */
	ZERO(ibv_destroy_qp(qp));
	ZERO(ibv_dereg_mr(first.mr));
	ZERO(ibv_destroy_cq(first.cq));
	ZERO(ibv_dealloc_pd(first.pd));
	free(first.memory - 24);
	ZERO(ibv_destroy_qp(other));
	tear_down(&second);
	/* Of two contexts, the one that was opened first is closed first. */
	set_up(&first, 16);
	set_up(&second, 16);
	other = qp_of(&second, second.cq, second.cq, NULL, 4, 4);
	join(&second, other, other);
	tear_down(&first);
	works(&second, other, second.cq);
	ZERO(ibv_destroy_qp(other));
	tear_down(&second);
}

/* What a process finds, and what it leaves. */
struct legacy {
	size_t registered;
	uint32_t rkey, qpn;
	uint64_t address;
};

/* Takes all page table entries of the card, and returns how many bytes that are. */
static size_t register_all(struct side *s)
{
	const size_t most = (size_t)1 << 30;
	/* Without memory: for reading alone the system has one page of zeros. */
	char *zeros = mmap(NULL, most, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t all = 0;

	CHECK(zeros != MAP_FAILED);
	for (size_t bytes = most; bytes >= 4096;) {
		/* The place in larger pages differs, so that an entry is of 4096 bytes. */
		if (ibv_reg_mr_iova(s->pd, zeros, bytes, (uintptr_t)zeros + 4096, 0)) {
			all += bytes;
			continue;
		}
		IS(errno, ENOMEM);
		bytes /= 2;
	}
	return all;
}

/* A process takes all page table entries, has requests under way, and ends without giving anything back. */
static void heir(struct side *s, struct legacy *all, int turn)
{
	struct legacy *own = &all[turn];
	ibv_send_wr wr;
	ibv_qp *qp;
	ibv_wc wc;

	CHECK(s->ctx = first_free(1));
	CHECK(s->pd = ibv_alloc_pd(s->ctx));
	CHECK(s->cq = ibv_create_cq(s->ctx, 64, NULL, NULL, 0));
	CHECK(s->memory = calloc(1, BYTES));
	CHECK(s->mr = ibv_reg_mr(s->pd, s->memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	if (turn > 0 && s->mr->rkey == all[turn - 1].rkey) {
		/* Tags are random, so one in 256 is that of the process before. The next one differs. */
		IS(ibv_dereg_mr(s->mr), 0);
		CHECK(s->mr = ibv_reg_mr(s->pd, s->memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
		CHECK(s->mr->rkey != all[turn - 1].rkey);
	}
	IS(ibv_query_gid(s->ctx, 1, s->gid, &s->mine.gid), 0);
	s->mine.address = (uintptr_t)s->memory;
	no_event(s);
	qp = qp_of(s, s->cq, s->cq, NULL, 16, 4);
	join(s, qp, qp);
	works(s, qp, s->cq);
	*own = (struct legacy){ .rkey = s->mr->rkey, .qpn = qp->qp_num, .address = s->mine.address };
	if (turn > 0) {
		/* The key of the process before it opens nothing. */
		ibv_qp *asks = qp_of(s, s->cq, s->cq, NULL, 4, 4), *answers = qp_of(s, s->cq, s->cq, NULL, 4, 4);
		ibv_sge sge = piece(s, 0, 8);

		join(s, asks, answers);
		wr = request(1, IBV_WR_RDMA_WRITE, &sge, 1);
		wr.wr.rdma = (ibv_send_wr_rdma){ all[turn - 1].address, all[turn - 1].rkey };
		post(asks, &wr);
		wc = one(s->cq);
		IS(wc.status, IBV_WC_REM_ACCESS_ERR);
	}
	own->registered = register_all(s);
	for (int i = 0; i < 8; i++) {
		ibv_sge sge = piece(s, 0, BYTES / 2);

		wr = request(i, IBV_WR_RDMA_WRITE, &sge, 1);
		wr.wr.rdma = (ibv_send_wr_rdma){ s->mine.address + BYTES / 2, s->mr->rkey };
		post(qp, &wr);
	}
	switch (turn) {
	case 0:
		exit(0);
	case 1:
		_exit(0);
	case 2:
		kill(getpid(), SIGKILL);
		break;
	case 3:
		IS(ibv_close_device(s->ctx), 0);
		exit(0);
	}
	_exit(0);
}

static void heirs(struct side *s)
{
	struct legacy *all = mmap(NULL, sizeof(*all) * 5, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = -1;

	if (!s->server)
		return;
	CHECK(all != MAP_FAILED);
	for (int turn = 0; turn < 5; turn++) {
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child) {
			side_name = "heir";
			alarm(PATIENCE);
			heir(s, all, turn);
		}
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(turn == 2 ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0);
		/* Each has found the same. */
		CHECK(all[turn].registered > 1 << 20);
		IS(all[turn].registered, all[0].registered);
		IS(all[turn].qpn, all[0].qpn);
	}
}

/* The peer is killed while it sends and is sent to. */
static void bereaved(struct side *s)
{
	ibv_send_wr wr;
	ibv_sge sge;
	ibv_qp *qp;
	ibv_wc wc[8];

	s->signal = SIGKILL;
	set_up(s, 64);
	qp = make_qp(s, IBV_QPT_RC, NULL, 0);
	to_init(s, qp);
	for (int i = 0; i < 4; i++)
		receive(s, qp, 100 + i, 0, 64);
	exchange(s, qp);
	to_rts(s, qp);
	sge = piece(s, 0, 8192);
	meet(s);
	for (int i = 0; i < 4; i++) {
		wr = request(i, IBV_WR_RDMA_WRITE, &sge, 1);
		wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address + 8192, s->theirs.rkey };
		if (!s->server || i < 2)
			post(qp, &wr);
	}
	if (!s->server)
		kill(getpid(), SIGKILL);
	/* Its socket ends with it. */
	char rest;

	while (read(s->peer, &rest, 1) > 0)
		;
	take(s->cq, wc, 2);
	for (int i = 2; i < 4; i++) {
		wr = request(i, IBV_WR_RDMA_WRITE, &sge, 1);
		wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address + 8192, s->theirs.rkey };
		post(qp, &wr);
	}
	take(s->cq, wc + 2, 6);
	int failed = 0, flushed = 0;

	for (int i = 0; i < 8; i++) {
		if (wc[i].status == IBV_WC_SUCCESS) {
			CHECK(i < 2 && wc[i].wr_id == (uint64_t)i);
		} else if (wc[i].status == IBV_WC_WR_FLUSH_ERR) {
			flushed++;
		} else {
			CHECK(wc[i].status == IBV_WC_RETRY_EXC_ERR || wc[i].status == IBV_WC_REM_OP_ERR);
			CHECK(wc[i].qp_num == qp->qp_num && wc[i].wr_id < 4);
			failed++;
		}
	}
	IS(failed, 1);
	CHECK(flushed >= 5);
	IS(state_of(qp), IBV_QPS_ERR);
	IS(ops(s->cq).poll_cq(s->cq, 8, wc), 0);
	ZERO(ibv_destroy_qp(qp));
	/* This card is none the worse for it. */
	qp = qp_of(s, s->cq, s->cq, NULL, 4, 4);
	join(s, qp, qp);
	works(s, qp, s->cq);
	ZERO(ibv_destroy_qp(qp));
	tear_down(s);
}

/* A program that has never said that it forks: the child has no part in the card, and the parent's data are its own. */
static void unprepared(struct side *s)
{
	ibv_sge sge;
	ibv_send_wr wr;
	int gate[2], status = -1;
	ibv_qp *qp;
	ibv_wc wc;
	char mark;

	if (!s->server)
		return;
	CHECK(ibv_is_fork_initialized() != IBV_FORK_ENABLED);
	set_up(s, 16);
	qp = qp_of(s, s->cq, s->cq, NULL, 4, 4);
	join(s, qp, qp);
	CHECK(!pipe(gate));
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		side_name = "child";
		alarm(PATIENCE);
		close(gate[1]);
		NO(ibv_alloc_pd(s->ctx), EIO);
		wr = nothing_to(s, 1);
		ibv_send_wr *bad;

		IS(post_send(qp, &wr, &bad), EIO);
		CHECK(ops(s->cq).poll_cq(s->cq, 1, &wc) < 0);
		NO(ibv_open_device(s->ctx->device), EBUSY);
		ZERO(ibv_destroy_qp(qp));
		IS(ibv_close_device(s->ctx), 0);
		/* It lives, with copies of the parent's pages, until the parent is done. */
		IS(read(gate[0], &mark, 1), 0);
		_exit(0);
	}
	close(gate[0]);
	/* The first byte that the parent writes now makes the pages its own. */
	fill(s->memory, 1000, 3);
	sge = piece(s, 0, 1000);
	wr = request(2, IBV_WR_RDMA_WRITE, &sge, 1);
	wr.wr.rdma = (ibv_send_wr_rdma){ s->mine.address + 8192, s->mr->rkey };
	post(qp, &wr);
	wc = one(s->cq);
	good(&wc, 2, IBV_WC_RDMA_WRITE);
	same(s->memory + 8192, 1000, 3);
	close(gate[1]);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	ZERO(ibv_destroy_qp(qp));
	tear_down(s);
}

/* The server of the cards is killed and started again: the device can be opened again, too. */
static void returns(struct side *s)
{
	ibv_device **list;
	ibv_async_event event;
	ibv_context *ctx;
	ibv_send_wr wr;
	int count = -1;
	ibv_qp *qp;
	ibv_wc wc;

	set_up(s, 16);
	meet(s);
	if (s->server)
		say("ready");
	event = next_event(s, IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&event);
	no_event(s);
	tear_down(s);
	CHECK(list = ibv_get_device_list(&count));
	IS(count, 1);
	/* A process that is killed closes its files one after the other: for a moment its socket may take what connects. */
	do
		CHECK(!ibv_open_device(list[0]) && (errno == ECONNREFUSED || errno == EIO));
	while (errno == EIO);
	meet(s);
	if (s->server)
		say("gone");
	while (!(ctx = ibv_open_device(list[0]))) {
		CHECK(errno == ECONNREFUSED || errno == ENOENT || errno == EIO);
		usleep(10 * 1000);
	}
	ibv_free_device_list(list);
	set_up(s, 16);
	IS(ibv_close_device(ctx), 0);
	qp = connected(s, IBV_QPT_RC, NULL);
	meet(s);
	wr = request(1, IBV_WR_RDMA_WRITE, NULL, 0);
	wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address, s->theirs.rkey };
	post(qp, &wr);
	wc = one(s->cq);
	good(&wc, 1, IBV_WC_RDMA_WRITE);
	meet(s);
	ZERO(ibv_destroy_qp(qp));
	tear_down(s);
}

/* No card is where it is looked for, and no card is anywhere. */
static void alone(struct side *s)
{
	(void)s;
	for (int i = 0; i < 2; i++) {
		ibv_device **list;
		int count = -1;

		if (i) {
			unsetenv("FERROWIRE_DEVICE");
			setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
			CHECK(!chdir("/proc"));
		} else {
			setenv("FERROWIRE_DEVICE", "sim:/nowhere/card.sock", 1);
		}
		CHECK(list = ibv_get_device_list(&count));
		CHECK(count == 0 && list[0] == NULL);
		ibv_free_device_list(list);
	}
}

/* The card says that it is of other tables or of another version. */
static void foreign(struct side *s)
{
	ibv_device **list;
	int count = -1;

	(void)s;
	CHECK(list = ibv_get_device_list(&count));
	IS(count, 1);
	NO(ibv_open_device(list[0]), EPROTO);
	/* It is no other one the next time. What is between the program and the card may not have hung up on the card yet. */
	do
		CHECK(!ibv_open_device(list[0]));
	while (errno == EBUSY && !usleep(1000));
	IS(errno, EPROTO);
	ibv_free_device_list(list);
}

/* The server speaks another protocol, so it is no card. */
static void protocol(struct side *s)
{
	ibv_device **list;
	int count = -1;

	(void)s;
	CHECK(list = ibv_get_device_list(&count));
	CHECK(count == 0 && list[0] == NULL);
	ibv_free_device_list(list);
}

static const struct test_case cases[] = {
	{ "full", full }, { "overrun", overrun }, { "asynchronous", asynchronous }, { "port", port },
	{ "again", again }, { "heirs", heirs }, { "bereaved", bereaved }, { "unprepared", unprepared },
	{ "returns", returns }, { "alone", alone }, { "foreign", foreign }, { "protocol", protocol },
};

int main(int argc, char **argv)
{
	return run_case(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), NULL);
}
