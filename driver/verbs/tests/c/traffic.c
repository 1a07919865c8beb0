/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Traffic between two cards, by libibverbs: see `side.h`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "queues.h"

/* What a GID of IPv4 begins with. */
static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

/* All operations of a connection. */
static void rc(struct side *s)
{
	ibv_qp *qp;
	ibv_wc wc[4];
	ibv_sge sges[3];
	ibv_send_wr wr, more, *bad = NULL;
	uint64_t *word;

	set_up(s, 64);
	qp = make_qp(s, IBV_QPT_RC, NULL, 0);
	to_init(s, qp);
	for (int i = 0; i < 4; i++)
		receive(s, qp, 100 + i, 8192 + 1024 * i, 1024);
	exchange(s, qp);
	to_rts(s, qp);
	word = (uint64_t *)(s->memory + 8);
	*word = s->server ? 1000 : 0;
	fill(s->memory + 4096, 1024, s->server);
	meet(s);
	if (s->server) {
		take(s->cq, wc, 4);
		good(&wc[0], 100, IBV_WC_RECV);
		CHECK(wc[0].byte_len == 9 && wc[0].qp_num == qp->qp_num && wc[0].wc_flags == 0);
		CHECK(!memcmp(s->memory + 8192, "one two 3", 9));
		good(&wc[1], 101, IBV_WC_RECV);
		CHECK(wc[1].wc_flags == IBV_WC_WITH_IMM && wc[1].imm.imm_data == htonl(0xfeed));
		CHECK(wc[1].byte_len == 6 && !memcmp(s->memory + 8192 + 1024, "inline", 6));
		good(&wc[2], 102, IBV_WC_RECV_RDMA_WITH_IMM);
		CHECK(wc[2].imm.imm_data == htonl(7) && wc[2].byte_len == 512);
		same(s->memory + 2048, 512, 0);
		good(&wc[3], 103, IBV_WC_RECV);
		CHECK(wc[3].byte_len == 0);
		CHECK(*word == 1005);
		meet(s);
	} else {
		/* Three pieces. */
		memcpy(s->memory, "one two 3", 9);
		sges[0] = piece(s, 0, 4);
		sges[1] = piece(s, 4, 4);
		sges[2] = piece(s, 8, 1);
		wr = request(1, IBV_WR_SEND, sges, 3);
		/* Data that is no registered memory. */
		char text[] = "inline";
		ibv_sge in = { .addr = (uintptr_t)text, .length = 6 };
		more = request(2, IBV_WR_SEND_WITH_IMM, &in, 1);
		more.send_flags = IBV_SEND_INLINE;
		more.imm.imm_data = htonl(0xfeed);
		wr.next = &more;
		post(qp, &wr);
		memset(text, 0, sizeof(text));
		sges[0] = piece(s, 4096, 512);
		wr = request(3, IBV_WR_RDMA_WRITE_WITH_IMM, sges, 1);
		wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address + 2048, s->theirs.rkey };
		wr.imm.imm_data = htonl(7);
		post(qp, &wr);
		take(s->cq, wc, 2);
		good(&wc[0], 1, IBV_WC_SEND);
		good(&wc[1], 3, IBV_WC_RDMA_WRITE);
		/* READ, and what depends on it. */
		sges[1] = piece(s, 2048, 512);
		wr = request(4, IBV_WR_RDMA_READ, &sges[1], 1);
		wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address + 2048, s->theirs.rkey };
		more = request(5, IBV_WR_RDMA_WRITE, &sges[1], 1);
		more.send_flags |= IBV_SEND_FENCE;
		more.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address + 3072, s->theirs.rkey };
		wr.next = &more;
		post(qp, &wr);
		take(s->cq, wc, 2);
		good(&wc[0], 4, IBV_WC_RDMA_READ);
		good(&wc[1], 5, IBV_WC_RDMA_WRITE);
		CHECK(wc[0].byte_len == 512);
		same(s->memory + 2048, 512, 0);
		/* Atomics. */
		sges[0] = piece(s, 16, 8);
		wr = request(6, IBV_WR_ATOMIC_FETCH_AND_ADD, sges, 1);
		wr.wr.atomic = (ibv_send_wr_atomic){ .remote_addr = s->theirs.address + 8, .compare_add = 3, .rkey = s->theirs.rkey };
		post(qp, &wr);
		wc[0] = one(s->cq);
		good(&wc[0], 6, IBV_WC_FETCH_ADD);
		CHECK(word[1] == 1000);
		wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		wr.wr_id = 7;
		wr.wr.atomic.compare_add = 1003;
		wr.wr.atomic.swap = 1005;
		post(qp, &wr);
		wc[0] = one(s->cq);
		good(&wc[0], 7, IBV_WC_COMP_SWAP);
		CHECK(word[1] == 1003);
		/* A list whose second request is refused: the first goes. */
		wr = request(8, IBV_WR_SEND, NULL, 0);
		more = request(9, IBV_WR_SEND, sges, 1000);
		wr.next = &more;
		IS(post_send(qp, &wr, &bad), EINVAL);
		CHECK(bad == &more);
		wc[0] = one(s->cq);
		good(&wc[0], 8, IBV_WC_SEND);
		meet(s);
	}
	CHECK(ops(s->cq).poll_cq(s->cq, 4, wc) == 0);
	meet(s);
	ZERO(ibv_destroy_qp(qp));
	tear_down(s);
}

/* Unreliable connections. */
static void uc(struct side *s)
{
	ibv_qp *qp;
	ibv_wc wc;
	ibv_sge sge;
	ibv_send_wr wr;

	set_up(s, 64);
	qp = make_qp(s, IBV_QPT_UC, NULL, 1);
	to_init(s, qp);
	receive(s, qp, 1, 4096, 4096);
	exchange(s, qp);
	to_rts(s, qp);
	meet(s);
	if (s->server) {
		wc = one(s->cq);
		good(&wc, 1, IBV_WC_RECV);
		CHECK(wc.byte_len == 3000);
		same(s->memory + 4096, 3000, 5);
		same(s->memory, 100, 5);
	} else {
		fill(s->memory, 3000, 5);
		sge = piece(s, 0, 100);
		wr = request(1, IBV_WR_RDMA_WRITE, &sge, 1);
		/* Every request is signalled: sq_sig_all. */
		wr.send_flags = 0;
		wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address, s->theirs.rkey };
		post(qp, &wr);
		wc = one(s->cq);
		good(&wc, 1, IBV_WC_RDMA_WRITE);
		sge = piece(s, 0, 3000);
		wr = request(2, IBV_WR_SEND, &sge, 1);
		post(qp, &wr);
		wc = one(s->cq);
		good(&wc, 2, IBV_WC_SEND);
	}
	meet(s);
	ZERO(ibv_destroy_qp(qp));
	tear_down(s);
}

/* Datagrams: there and, by what they bring, back. */
static void ud(struct side *s)
{
	ibv_qp *qp;
	ibv_ah *ah;
	ibv_ah_attr attr;
	ibv_wc wc;
	ibv_sge sge;
	ibv_send_wr wr;

	set_up(s, 64);
	qp = make_qp(s, IBV_QPT_UD, NULL, 0);
	to_init(s, qp);
	receive(s, qp, 1, 4096, GRH + 1024);
	exchange(s, qp);
	to_rts(s, qp);
	meet(s);
	if (s->server) {
		wc = one(s->cq);
		good(&wc, 1, IBV_WC_RECV);
		CHECK(wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM) && wc.imm.imm_data == htonl(99));
		CHECK(wc.byte_len == GRH + 300 && wc.src_qp == s->theirs.qpn);
		/* The packet's family, as UCX looks for it: that of the addresses. */
		CHECK(wc.sl == (memcmp(s->mine.gid.raw, mapped, sizeof(mapped)) ? 9 : 10));
		CHECK(s->memory[4096 + (wc.sl == 9 ? 0 : 20)] >> 4 == (wc.sl == 9 ? 6 : 4));
		same(s->memory + 4096 + GRH, 300, 3);
		IS(ibv_init_ah_from_wc(s->ctx, 1, &wc, (ibv_grh *)(s->memory + 4096), &attr), 0);
		CHECK(!memcmp(&attr.grh.dgid, &s->theirs.gid, 16) && attr.grh.sgid_index == s->gid);
		CHECK(ah = ibv_create_ah_from_wc(s->pd, &wc, (ibv_grh *)(s->memory + 4096), 1));
	} else {
		unsigned char mac[6];
		uint16_t vlan = 1;

		attr = way(s, &s->theirs.gid);
		CHECK(ah = ibv_create_ah(s->pd, &attr));
		ZERO(ibv_resolve_eth_l2_from_gid(s->ctx, &attr, mac, &vlan));
		CHECK(mac[0] == 2 && vlan == 0xffff);
		fill(s->memory, 300, 3);
	}
	sge = piece(s, s->server ? 4096 + GRH : 0, 300);
	wr = request(2, s->server ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, &sge, 1);
	wr.imm.imm_data = htonl(99);
	wr.wr.ud = (ibv_send_wr_ud){ ah, s->theirs.qpn, QKEY };
	post(qp, &wr);
	wc = one(s->cq);
	if (!s->server && wc.wr_id == 1) {
		/* The answer was faster. */
		same(s->memory + 4096 + GRH, 300, 3);
		wc = one(s->cq);
		good(&wc, 2, IBV_WC_SEND);
	} else {
		good(&wc, 2, IBV_WC_SEND);
		if (!s->server) {
			wc = one(s->cq);
			good(&wc, 1, IBV_WC_RECV);
			same(s->memory + 4096 + GRH, 300, 3);
		}
	}
	/* A datagram without an address. */
	wr.wr.ud.ah = NULL;
	ibv_send_wr *bad = NULL;
	IS(post_send(qp, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	meet(s);
	ZERO(ibv_destroy_qp(qp));
	ZERO(ibv_destroy_ah(ah));
	tear_down(s);
}

/* Three queue pairs share receives, and an event says when few are left. */
static void srq(struct side *s)
{
	ibv_srq_init_attr init = { .srq_context = s, .attr = { .max_wr = 16, .max_sge = 1 } };
	ibv_srq_attr attr;
	ibv_async_event event;
	ibv_srq *srq;
	ibv_qp *qp[3];
	ibv_wc wc[6];
	ibv_sge sges[8];
	ibv_recv_wr wrs[8], *bad = NULL;
	unsigned int seen = 0;
	uint32_t number;

	set_up(s, 64);
	CHECK(srq = ibv_create_srq(s->pd, &init));
	CHECK(init.attr.max_wr >= 16 && srq->srq_context == s);
	ZERO(table(s->ctx)->get_srq_num(srq, &number));
	for (int i = 0; i < 8; i++) {
		sges[i] = piece(s, 1024 * i, 1024);
		wrs[i] = (ibv_recv_wr){ .wr_id = i, .sg_list = &sges[i], .num_sge = 1, .next = i < 7 ? &wrs[i + 1] : NULL };
	}
	if (s->server)
		ZERO(ops(srq).post_srq_recv(srq, wrs, &bad));
	for (int i = 0; i < 3; i++)
		qp[i] = connected(s, IBV_QPT_RC, srq);
	if (s->server) {
		attr.srq_limit = 4;
		ZERO(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
		ZERO(ibv_query_srq(srq, &attr));
		CHECK(attr.srq_limit == 4 && attr.max_wr == init.attr.max_wr && attr.max_sge == 1);
		attr.max_wr = 1 << 30;
		IS(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EOPNOTSUPP);
		/* Its queue pairs have no receives of their own. */
		IS(post_recv(qp[0], wrs, &bad), EINVAL);
		IS(ibv_destroy_srq(srq), EBUSY);
	}
	meet(s);
	if (s->server) {
		take(s->cq, wc, 6);
		for (int i = 0; i < 6; i++) {
			CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].opcode == IBV_WC_RECV && wc[i].wr_id < 8);
			seen |= 1u << wc[i].wr_id;
			same(s->memory + 1024 * wc[i].wr_id, 64, ntohl(wc[i].imm.imm_data));
		}
		CHECK(seen == 0x3f);
		event = next_event(s, IBV_EVENT_SRQ_LIMIT_REACHED);
		CHECK(event.element.srq == srq);
		ibv_ack_async_event(&event);
		ZERO(ibv_query_srq(srq, &attr));
		CHECK(attr.srq_limit == 0);
		meet(s);
	} else {
		for (int i = 0; i < 6; i++) {
			fill(s->memory + 64 * i, 64, i);
			sges[0] = piece(s, 64 * i, 64);
			ibv_send_wr wr = request(i, IBV_WR_SEND_WITH_IMM, sges, 1);
			wr.imm.imm_data = htonl(i);
			post(qp[i % 3], &wr);
			wc[0] = one(s->cq);
			good(&wc[0], i, IBV_WC_SEND);
		}
		meet(s);
	}
	if (s->server) {
		/* In error, a queue pair says when it has given back all that it took. */
		ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

		ZERO(ibv_modify_qp(qp[0], &error, IBV_QP_STATE));
		event = next_event(s, IBV_EVENT_QP_LAST_WQE_REACHED);
		CHECK(event.element.qp == qp[0]);
		ibv_ack_async_event(&event);
	}
	meet(s);
	for (int i = 0; i < 3; i++)
		ZERO(ibv_destroy_qp(qp[i]));
	ZERO(ibv_destroy_srq(srq));
	tear_down(s);
}

/* A completion channel, in all ways to wait for it. */
static void events(struct side *s)
{
	ibv_comp_channel *channel;
	ibv_cq *cq, *plain, *got = NULL;
	void *context = NULL;
	ibv_qp *qp;
	ibv_wc wc;
	ibv_send_wr wr;
	struct epoll_event ready;
	int queue;

	set_up(s, 64);
	plain = s->cq;
	CHECK(channel = ibv_create_comp_channel(s->ctx));
	CHECK(!(fcntl(channel->fd, F_GETFL) & O_NONBLOCK) && channel->refcnt == 0);
	CHECK(cq = ibv_create_cq(s->ctx, 16, &got, channel, 0));
	CHECK(channel->refcnt == 1);
	IS(ibv_destroy_comp_channel(channel), EBUSY);
	s->cq = cq;
	qp = make_qp(s, IBV_QPT_RC, NULL, 0);
	to_init(s, qp);
	for (int i = 0; i < 4; i++)
		receive(s, qp, i, 4096, 64);
	if (s->server)
		ZERO(ops(cq).req_notify_cq(cq, 0));
	exchange(s, qp);
	to_rts(s, qp);
	meet(s);
	CHECK((queue = epoll_create1(0)) >= 0);
	ready = (struct epoll_event){ .events = EPOLLIN };
	CHECK(!epoll_ctl(queue, EPOLL_CTL_ADD, channel->fd, &ready));
	for (int round = 0; round < 4; round++) {
		if (!s->server) {
			meet(s);
			wr = request(round, IBV_WR_SEND, NULL, 0);
			/* The third is not solicited, the fourth is. */
			wr.send_flags |= round == 3 ? IBV_SEND_SOLICITED : 0;
			post(qp, &wr);
			wc = one(cq);
			good(&wc, round, IBV_WC_SEND);
			meet(s);
			continue;
		}
		meet(s);
		switch (round) {
		case 0:
			/* It waits in the call. */
			IS(ibv_get_cq_event(channel, &got, &context), 0);
			break;
		case 1:
			CHECK(epoll_wait(queue, &ready, 1, PATIENCE * 1000) == 1);
			CHECK(!fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK));
			IS(ibv_get_cq_event(channel, &got, &context), 0);
			IS(ibv_get_cq_event(channel, &got, &context), -1);
			CHECK(errno == EAGAIN);
			break;
		case 2:
			/* Armed for what is solicited only. */
			CHECK(epoll_wait(queue, &ready, 1, 200) == 0);
			break;
		case 3:
			CHECK(epoll_wait(queue, &ready, 1, PATIENCE * 1000) == 1);
			IS(ibv_get_cq_event(channel, &got, &context), 0);
			/* There is no other one, of the round before. */
			CHECK(epoll_wait(queue, &ready, 1, 100) == 0);
			IS(ibv_get_cq_event(channel, &got, &context), -1);
			CHECK(errno == EAGAIN);
			break;
		}
		CHECK(round == 2 || (got == cq && context == &got));
		if (round == 3)
			ibv_ack_cq_events(cq, 3);
		wc = one(cq);
		good(&wc, round, IBV_WC_RECV);
		ZERO(ops(cq).req_notify_cq(cq, round > 0));
		meet(s);
	}
	close(queue);
	ZERO(ibv_destroy_qp(qp));
	s->cq = plain;
	ZERO(ibv_destroy_cq(cq));
	ZERO(ibv_destroy_comp_channel(channel));
	tear_down(s);
}

/* Seconds since some time. */
static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* A queue whose events wait for three completions, or for the longest time. */
static void moderation(struct side *s)
{
	ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { 3, 0xffff } };
	/* The sum of sends of each round, and how many make the event. */
	static const int rounds[] = { 1, 3, 1 };
	ibv_comp_channel *channel;
	ibv_cq *cq, *plain, *got = NULL;
	ibv_device_attr_ex device;
	void *context = NULL;
	ibv_qp *qp;
	ibv_wc wc;
	ibv_send_wr wr;
	double before;

	set_up(s, 64);
	plain = s->cq;
	ZERO(table(s->ctx)->query_device_ex(s->ctx, NULL, &device, sizeof(device)));
	CHECK(device.cq_mod_caps.max_cq_count == 0xffff && device.cq_mod_caps.max_cq_period == 0xffff);
	CHECK(channel = ibv_create_comp_channel(s->ctx));
	CHECK(cq = ibv_create_cq(s->ctx, 16, &got, channel, 0));
	s->cq = cq;
	ZERO(table(s->ctx)->modify_cq(cq, &attr));
	attr.attr_mask = 0;
	IS(table(s->ctx)->modify_cq(cq, &attr), EINVAL);
	attr.attr_mask = IBV_CQ_ATTR_MODERATE | 1 << 1;
	IS(table(s->ctx)->modify_cq(cq, &attr), EOPNOTSUPP);
	qp = make_qp(s, IBV_QPT_RC, NULL, 0);
	to_init(s, qp);
	for (int i = 0; i < 5; i++)
		receive(s, qp, i, 4096, 64);
	exchange(s, qp);
	to_rts(s, qp);
	for (int round = 0, id = 0; round < 3; round++) {
		if (s->server) {
			ZERO(ops(cq).req_notify_cq(cq, 0));
			if (round == 2) {
				/* Without moderation from now on, also of what it is armed for. */
				attr = (ibv_modify_cq_attr){ .attr_mask = IBV_CQ_ATTR_MODERATE };
				ZERO(table(s->ctx)->modify_cq(cq, &attr));
			}
		}
		before = seconds();
		meet(s);
		for (int i = 0; !s->server && i < rounds[round]; i++, id++) {
			wr = request(id, IBV_WR_SEND, NULL, 0);
			post(qp, &wr);
			wc = one(cq);
			good(&wc, id, IBV_WC_SEND);
		}
		if (s->server) {
			IS(ibv_get_cq_event(channel, &got, &context), 0);
			/* One alone waits for its time. */
			CHECK(got == cq && (round > 0 || seconds() - before > 0.06));
			ibv_ack_cq_events(cq, 1);
			for (int i = 0; i < rounds[round]; i++, id++) {
				wc = one(cq);
				good(&wc, id, IBV_WC_RECV);
			}
		}
		meet(s);
	}
	ZERO(ibv_destroy_qp(qp));
	s->cq = plain;
	ZERO(ibv_destroy_cq(cq));
	ZERO(ibv_destroy_comp_channel(channel));
}

struct resizer {
	ibv_cq *cq;
	int stop, times;
};

static void *resize(void *arg)
{
	struct resizer *r = arg;

	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
		const int entries = 40 + 37 * r->times % 200;

		ZERO(ibv_resize_cq(r->cq, entries));
		CHECK(r->cq->cqe >= entries);
		ZERO(ops(r->cq).req_notify_cq(r->cq, 0));
		r->times++;
	}
	return NULL;
}

/* A thread resizes the queue and arms it, while another one posts and polls. */
static void resizes(struct side *s)
{
	enum { ROUNDS = 1000, UNPOLLED = 8 };
	ibv_comp_channel *channel;
	ibv_cq *plain;
	ibv_qp *qp;
	ibv_wc wc[UNPOLLED];
	ibv_send_wr wr;
	pthread_t thread;
	struct resizer other = { 0 };

	set_up(s, 64);
	plain = s->cq;
	CHECK(channel = ibv_create_comp_channel(s->ctx));
	CHECK(s->cq = ibv_create_cq(s->ctx, 40, NULL, channel, 0));
	qp = make_qp(s, IBV_QPT_RC, NULL, 0);
	to_init(s, qp);
	for (int i = 0; i < 12; i++)
		receive(s, qp, i, 0, 64);
	exchange(s, qp);
	to_rts(s, qp);
	meet(s);
	other.cq = s->cq;
	CHECK(!pthread_create(&thread, NULL, resize, &other));
	for (uint64_t sent = 0, sends = 0, receives = 0; sends < ROUNDS || receives < ROUNDS;) {
		if (sent < ROUNDS && sent - sends < 4 && sent < receives + 4) {
			wr = request(sent++, IBV_WR_SEND, NULL, 0);
			post(qp, &wr);
		}
		take(s->cq, wc, 1);
		if (wc[0].opcode == IBV_WC_SEND) {
			good(&wc[0], sends++, IBV_WC_SEND);
		} else {
			good(&wc[0], receives++, IBV_WC_RECV);
			receive(s, qp, receives + 11, 0, 64);
		}
	}
	__atomic_store_n(&other.stop, 1, __ATOMIC_RELEASE);
	CHECK(!pthread_join(thread, NULL));
	CHECK(other.times > 10);
	meet(s);
	/* No fewer than are unpolled. */
	for (int i = 0; i < UNPOLLED; i++) {
		wr = request(ROUNDS + i, IBV_WR_RDMA_WRITE, NULL, 0);
		wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address, s->theirs.rkey };
		post(qp, &wr);
	}
	usleep(500 * 1000);
	IS(ibv_resize_cq(s->cq, UNPOLLED - 1), EINVAL);
	ZERO(ibv_resize_cq(s->cq, UNPOLLED));
	take(s->cq, wc, UNPOLLED);
	for (int i = 0; i < UNPOLLED; i++)
		good(&wc[i], ROUNDS + i, IBV_WC_RDMA_WRITE);
	meet(s);
	ZERO(ibv_destroy_qp(qp));
	ZERO(ibv_destroy_cq(s->cq));
	ZERO(ibv_destroy_comp_channel(channel));
	s->cq = plain;
	tear_down(s);
}

/* A destruction waits for the acknowledgement of another thread. */
static void *acknowledge(void *cq)
{
	usleep(100 * 1000);
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void acks(struct side *s)
{
	ibv_comp_channel *channel;
	ibv_cq *got, *plain;
	void *context;
	ibv_qp *qp;
	ibv_send_wr wr;
	struct timespec before, after;
	pthread_t thread;

	set_up(s, 64);
	plain = s->cq;
	CHECK(channel = ibv_create_comp_channel(s->ctx));
	CHECK(s->cq = ibv_create_cq(s->ctx, 16, NULL, channel, 0));
	ZERO(ops(s->cq).req_notify_cq(s->cq, 0));
	qp = connected(s, IBV_QPT_RC, NULL);
	receive(s, qp, 1, 0, 64);
	meet(s);
	wr = request(2, IBV_WR_SEND, NULL, 0);
	post(qp, &wr);
	IS(ibv_get_cq_event(channel, &got, &context), 0);
	CHECK(got == s->cq);
	meet(s);
	ZERO(ibv_destroy_qp(qp));
	clock_gettime(CLOCK_MONOTONIC, &before);
	CHECK(!pthread_create(&thread, NULL, acknowledge, s->cq));
	ZERO(ibv_destroy_cq(s->cq));
	clock_gettime(CLOCK_MONOTONIC, &after);
	CHECK((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 >= 90);
	CHECK(!pthread_join(thread, NULL));
	ZERO(ibv_destroy_comp_channel(channel));
	s->cq = plain;
	tear_down(s);
}

/* The extended interfaces, in a parent domain of one thread. */
static void extended(struct side *s)
{
	ibv_td_init_attr td_attr = { 0 };
	ibv_parent_domain_init_attr parent_attr = { 0 };
	ibv_cq_init_attr_ex cq_attr = { .cqe = 32, .cq_context = s, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM };
	ibv_poll_cq_attr poll_attr = { 0 };
	ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 32 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
			IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD };
	verbs_context *verbs;
	ibv_td *td;
	ibv_pd *parent;
	ibv_cq_ex *cq;
	ibv_cq *plain;
	ibv_qp *qp, *old;
	ibv_qp_ex *ex;
	ibv_data_buf pieces[2];
	ibv_sge sges[2];
	int result;

	set_up(s, 64);
	plain = s->cq;
	verbs = table(s->ctx);
	CHECK(verbs->sz >= sizeof(*verbs) && s->ctx->abi_compat == (void *)__VERBS_ABI_IS_EXTENDED);
	CHECK(td = verbs->alloc_td(s->ctx, &td_attr));
	parent_attr.pd = s->pd;
	parent_attr.td = td;
	CHECK(parent = verbs->alloc_parent_domain(s->ctx, &parent_attr));
	IS(verbs->dealloc_td(td), EBUSY);
	IS(ibv_dealloc_pd(s->pd), EBUSY);
	cq_attr.parent_domain = parent;
	CHECK(cq = verbs->create_cq_ex(s->ctx, &cq_attr));
	cq_attr.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	NO(verbs->create_cq_ex(s->ctx, &cq_attr), EOPNOTSUPP);
	s->cq = (ibv_cq *)cq;
	init.pd = parent;
	init.send_cq = init.recv_cq = s->cq;
	CHECK(qp = verbs->create_qp_ex(s->ctx, &init));
	CHECK(ex = ibv_qp_to_qp_ex(qp));
	init.send_ops_flags = IBV_QP_EX_WITH_TSO;
	NO(verbs->create_qp_ex(s->ctx, &init), EOPNOTSUPP);
	old = make_qp(s, IBV_QPT_RC, NULL, 0);
	CHECK(ibv_qp_to_qp_ex(old) == NULL);
	ZERO(ibv_destroy_qp(old));
	to_init(s, qp);
	receive(s, qp, 1, 8192, 1024);
	receive(s, qp, 2, 9216, 1024);
	/* In INIT nothing may be sent, which the end of the series says. */
	ex->wr_start(ex);
	ex->wr_id = 9;
	ex->wr_send(ex);
	IS(ex->wr_complete(ex), EINVAL);
	exchange(s, qp);
	to_rts(s, qp);
	meet(s);
	if (s->server) {
		while ((result = cq->start_poll(cq, &poll_attr)) == ENOENT)
			;
		ZERO(result);
		CHECK(cq->wr_id == 1 && cq->status == IBV_WC_SUCCESS && cq->read_opcode(cq) == IBV_WC_RECV);
		CHECK(cq->read_byte_len(cq) == 10 && cq->read_qp_num(cq) == qp->qp_num && cq->read_wc_flags(cq) == 0);
		CHECK(!memcmp(s->memory + 8192, "inlinedata", 10));
		while ((result = cq->next_poll(cq)) == ENOENT)
			;
		ZERO(result);
		CHECK(cq->wr_id == 2 && cq->read_imm_data(cq) == htonl(77) && cq->read_wc_flags(cq) == IBV_WC_WITH_IMM);
		IS(cq->next_poll(cq), ENOENT);
		cq->end_poll(cq);
		CHECK(cq->read_vendor_err && cq->start_poll(cq, &poll_attr) == ENOENT);
		same(s->memory + 2048, 600, 4);
		meet(s);
	} else {
		fill(s->memory, 600, 4);
		/* A series that is given up. */
		ex->wr_start(ex);
		ex->wr_id = 1;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ex->wr_send(ex);
		ex->wr_set_sge(ex, s->mr->lkey, s->mine.address, 10);
		ex->wr_send(ex);
		ex->wr_abort(ex);
		/* One that has something wrong: nothing of it goes. */
		ex->wr_start(ex);
		ex->wr_send(ex);
		ex->wr_set_sge(ex, s->mr->lkey, s->mine.address, 10);
		ex->wr_send(ex);
		ex->wr_set_inline_data(ex, s->memory, 5000);
		IS(ex->wr_complete(ex), EINVAL);
		/* And a good one. */
		pieces[0] = (ibv_data_buf){ "inline", 6 };
		pieces[1] = (ibv_data_buf){ "data", 4 };
		sges[0] = piece(s, 0, 400);
		sges[1] = piece(s, 400, 200);
		ex->wr_start(ex);
		ex->wr_id = 3;
		ex->wr_flags = 0;
		ex->wr_send(ex);
		ex->wr_set_inline_data_list(ex, 2, pieces);
		ex->wr_id = 4;
		ex->wr_rdma_write(ex, s->theirs.rkey, s->theirs.address + 2048);
		ex->wr_set_sge_list(ex, 2, sges);
		ex->wr_id = 5;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ex->wr_send_imm(ex, htonl(77));
		ex->wr_set_sge(ex, s->mr->lkey, s->mine.address, 1);
		ZERO(ex->wr_complete(ex));
		while ((result = cq->start_poll(cq, &poll_attr)) == ENOENT)
			;
		ZERO(result);
		CHECK(cq->wr_id == 5 && cq->status == IBV_WC_SUCCESS && cq->read_opcode(cq) == IBV_WC_SEND);
		cq->end_poll(cq);
		ex->wr_start(ex);
		ex->wr_id = 6;
		ex->wr_rdma_read(ex, s->theirs.rkey, s->theirs.address + 2048);
		ex->wr_set_sge(ex, s->mr->lkey, s->mine.address + 4096, 600);
		ZERO(ex->wr_complete(ex));
		while ((result = cq->start_poll(cq, &poll_attr)) == ENOENT)
			;
		ZERO(result);
		CHECK(cq->wr_id == 6 && cq->read_opcode(cq) == IBV_WC_RDMA_READ);
		cq->end_poll(cq);
		same(s->memory + 4096, 600, 4);
		meet(s);
	}
	ZERO(ibv_destroy_qp(qp));
	ZERO(ibv_destroy_cq(s->cq));
	ZERO(ibv_dealloc_pd(parent));
	ZERO(verbs->dealloc_td(td));
	s->cq = plain;
	tear_down(s);
}

/* A WRITE of what a region holds into the peer's memory. */
static ibv_wc_status write_of(struct side *s, ibv_qp *qp, ibv_mr *mr, uint64_t address, int bytes)
{
	ibv_sge sge = { .addr = address, .length = bytes, .lkey = mr->lkey };
	ibv_send_wr wr = request(1, IBV_WR_RDMA_WRITE, &sge, 1);
	ibv_wc wc;

	wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address + 8192, s->theirs.rkey };
	post(qp, &wr);
	wc = one(s->cq);
	return wc.status;
}

/* Every kind of memory can be registered. */
static void memory(struct side *s)
{
	const int both = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	static const unsigned char constant[] = "memory that cannot be written, and is registered for reading alone";
	unsigned char stack[5000], *mapped;
	char name[] = "/tmp/ferrowire-memory-XXXXXX";
	ibv_qp *qp;
	ibv_mr *mr, *null;
	int file;

	set_up(s, 64);
	qp = connected(s, IBV_QPT_RC, NULL);
	meet(s);
	if (s->server) {
		for (int i = 0; i < 9; i++) {
			meet(s);
			if (i == 3)
				CHECK(!memcmp(s->memory + 8192, constant, sizeof(constant)));
			else if (i != 6)
				same(s->memory + 8192, 3000, 10 + i);
			else
				for (int at = 0; at < 3000; at++)
					CHECK(s->memory[8192 + at] == 0);
			meet(s);
		}
	} else {
		/* 0: the stack. */
		fill(stack + 1, 3000, 10);
		CHECK(mr = ibv_reg_mr(s->pd, stack + 1, 3000, both));
		IS(write_of(s, qp, mr, (uintptr_t)stack + 1, 3000), IBV_WC_SUCCESS);
		ZERO(ibv_dereg_mr(mr));
		meet(s), meet(s);
		/* 1: a file. */
		CHECK((file = mkstemp(name)) >= 0 && !ftruncate(file, 8192));
		unlink(name);
		mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		CHECK(mapped != MAP_FAILED);
		fill(mapped, 3000, 11);
		CHECK(mr = ibv_reg_mr(s->pd, mapped, 8192, both));
		IS(write_of(s, qp, mr, (uintptr_t)mapped, 3000), IBV_WC_SUCCESS);
		meet(s), meet(s);
		/* 2: the same region with other memory, and its keys. */
		uint32_t key = mr->rkey;

		fill(s->memory, 3000, 12);
		ZERO(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL, s->memory, 3000, 0));
		CHECK(mr->rkey == key && mr->lkey == key && mr->addr == s->memory && mr->length == 3000);
		CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1 << 31) == IBV_REREG_MR_ERR_INPUT);
		IS(write_of(s, qp, mr, (uintptr_t)s->memory, 3000), IBV_WC_SUCCESS);
		ZERO(ibv_dereg_mr(mr));
		meet(s), meet(s);
		/* 3: what cannot be written. */
		NO(ibv_reg_mr(s->pd, (void *)constant, sizeof(constant), IBV_ACCESS_LOCAL_WRITE), EFAULT);
		CHECK(mr = ibv_reg_mr(s->pd, (void *)constant, sizeof(constant), IBV_ACCESS_REMOTE_READ));
		IS(write_of(s, qp, mr, (uintptr_t)constant, sizeof(constant)), IBV_WC_SUCCESS);
		ZERO(ibv_dereg_mr(mr));
		meet(s), meet(s);
		/* 4: under other addresses. */
		fill(mapped + 100, 3000, 14);
		CHECK(mr = ibv_reg_mr_iova(s->pd, mapped + 100, 3000, 0x7000000000064ULL, both));
		IS(write_of(s, qp, mr, 0x7000000000064ULL, 3000), IBV_WC_SUCCESS);
		ZERO(ibv_dereg_mr(mr));
		NO(ibv_reg_mr_iova(s->pd, mapped + 100, 3000, 0x1000, both), EINVAL);
		meet(s), meet(s);
		/* 5: large, with large pages of the card. */
		unsigned char *large = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		CHECK(large != MAP_FAILED);
		CHECK(mr = ibv_reg_mr(s->pd, large, 64 << 20, both));
		fill(large + (50 << 20) + 7, 3000, 15);
		IS(write_of(s, qp, mr, (uintptr_t)large + (50 << 20) + 7, 3000), IBV_WC_SUCCESS);
		meet(s), meet(s);
		/* 6: nothing. */
		CHECK(null = table(s->ctx)->alloc_null_mr(s->pd));
		IS(write_of(s, qp, null, 0x12345678, 3000), IBV_WC_SUCCESS);
		meet(s), meet(s);
		ZERO(ibv_dereg_mr(null));
		/* 7: what processes share. 8: huge pages, if the system has any. */
		for (int i = 7; i < 9; i++) {
			const int how = i == 7 ? MAP_SHARED | MAP_ANONYMOUS : MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
			unsigned char *other = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, how, -1, 0);
			ibv_mr *region;

			if (other == MAP_FAILED && i == 8)
				other = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, how & ~MAP_HUGETLB, -1, 0);
			CHECK(other != MAP_FAILED);
			CHECK(region = ibv_reg_mr(s->pd, other, 2 << 20, both | (i == 8 ? IBV_ACCESS_HUGETLB : 0)));
			fill(other + (1 << 20), 3000, 10 + i);
			IS(write_of(s, qp, region, (uintptr_t)other + (1 << 20), 3000), IBV_WC_SUCCESS);
			ZERO(ibv_dereg_mr(region));
			munmap(other, 2 << 20);
			meet(s), meet(s);
		}
		/* What is not there. */
		NO(ibv_reg_mr(s->pd, NULL, 100, both), EFAULT);
		NO(ibv_reg_mr(s->pd, (void *)64, 100, both), EFAULT);
		NO(ibv_reg_mr(s->pd, s->memory, 0, both), EINVAL);
		NO(ibv_reg_mr(s->pd, s->memory, 100, IBV_ACCESS_REMOTE_WRITE), EINVAL);
		NO(ibv_reg_mr_iova2(s->pd, s->memory, 100, 0, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
		NO(ibv_reg_dmabuf_mr(s->pd, 0, 100, 0, file, both), EOPNOTSUPP);
		/* What is there, and then is not: the request fails, and nothing hangs. */
		CHECK(!munmap(large + (50 << 20), 1 << 20));
		CHECK(write_of(s, qp, mr, (uintptr_t)large + (50 << 20) + 7, 3000) != IBV_WC_SUCCESS);
		ZERO(ibv_dereg_mr(mr));
		munmap(large, 64 << 20);
		munmap(mapped, 8192);
		close(file);
	}
	meet(s);
	ZERO(ibv_destroy_qp(qp));
	tear_down(s);
}

/* Memory windows of both types. */
static void windows(struct side *s)
{
	ibv_qp *qp;
	ibv_mw *mw[2];
	ibv_wc wc;
	ibv_sge sge;
	ibv_send_wr wr;
	ibv_mw_bind bind;
	/* Of the windows; and one that window 0 had before. */
	uint32_t keys[3];

	set_up(s, 64);
	/* Every request is signalled, and a bind that takes another one back completes once. */
	qp = make_qp(s, IBV_QPT_RC, NULL, 1);
	to_init(s, qp);
	for (int i = 0; i < 2; i++)
		receive(s, qp, 10 + i, 0, 64);
	exchange(s, qp);
	to_rts(s, qp);
	if (s->server) {
		/* The first right means nothing for a window. */
		const ibv_mw_bind_info info = { .mr = s->mr, .addr = s->mine.address + 4096, .length = 1024,
			.mw_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

		CHECK(mw[0] = ops(s->pd).alloc_mw(s->pd, IBV_MW_TYPE_1));
		CHECK(mw[1] = ops(s->pd).alloc_mw(s->pd, IBV_MW_TYPE_2));
		NO(ops(s->pd).alloc_mw(s->pd, 3), EINVAL);
		bind = (ibv_mw_bind){ .wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = info };
		keys[0] = mw[0]->rkey;
		ZERO(ops(qp).bind_mw(qp, mw[0], &bind));
		CHECK(mw[0]->rkey != keys[0]);
		wc = one(s->cq);
		good(&wc, 1, IBV_WC_BIND_MW);
		/* Once more: its key is another one. And again at once, after a message that takes its time: binds are ordered. */
		keys[2] = mw[0]->rkey;
		sge = piece(s, 0, 4096);
		wr = request(4, IBV_WR_RDMA_WRITE, &sge, 1);
		wr.send_flags = 0;
		wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address + 12288, s->theirs.rkey };
		post(qp, &wr);
		for (int i = 0; i < 3; i++) {
			keys[0] = mw[0]->rkey;
			bind.wr_id = 5 + i;
			bind.bind_info.addr = s->mine.address + 5120;
			ZERO(ops(qp).bind_mw(qp, mw[0], &bind));
			CHECK(mw[0]->rkey != keys[0]);
		}
		for (int i = 0; i < 4; i++) {
			wc = one(s->cq);
			good(&wc, 4 + i, i ? IBV_WC_BIND_MW : IBV_WC_RDMA_WRITE);
		}
		keys[0] = mw[0]->rkey;
		/* What is refused takes nothing back. */
		bind.bind_info.mw_access_flags = IBV_ACCESS_MW_BIND;
		IS(ops(qp).bind_mw(qp, mw[0], &bind), EINVAL);
		CHECK(mw[0]->rkey == keys[0]);
		ibv_pd *other = ibv_alloc_pd(s->ctx);

		CHECK(other);
		ibv_mw *foreign = ops(other).alloc_mw(other, IBV_MW_TYPE_1);

		CHECK(foreign);
		bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
		IS(ops(qp).bind_mw(qp, foreign, &bind), EPERM);
		ZERO(ops(foreign).dealloc_mw(foreign));
		ZERO(ibv_dealloc_pd(other));
		IS(ops(qp).bind_mw(qp, mw[1], &bind), EINVAL);
		/* Binds and invalidations read no elements, whatever the members say. */
		for (int i = 0; i < 2; i++) {
			keys[1] = (mw[1]->rkey & ~0xffu) | ((mw[1]->rkey + 1) & 0xff);
			wr = request(2, IBV_WR_BIND_MW, (ibv_sge *)8, 1 + 98 * i);
			wr.op.bind_mw = (ibv_send_wr_bind_mw){ .mw = mw[1], .rkey = keys[1], .bind_info = info };
			post(qp, &wr);
			mw[1]->rkey = keys[1];
			wc = one(s->cq);
			good(&wc, 2, IBV_WC_BIND_MW);
			if (i)
				break;
			wr = request(3, IBV_WR_LOCAL_INV, (ibv_sge *)8, 1);
			wr.imm.invalidate_rkey = keys[1];
			post(qp, &wr);
			wc = one(s->cq);
			good(&wc, 3, IBV_WC_LOCAL_INV);
		}
		/* Windows hold their region. */
		IS(ibv_dereg_mr(s->mr), EBUSY);
		tell(s, keys, sizeof(keys));
		wc = one(s->cq);
		good(&wc, 10, IBV_WC_RECV);
		CHECK(wc.wc_flags == IBV_WC_WITH_INV && wc.imm.invalidated_rkey == keys[1]);
		same(s->memory + 4096, 100, 1);
		same(s->memory + 5120, 100, 0);
		meet(s);
		/* The peer used a key that is no more. */
		wc = one(s->cq);
		CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 11);
		meet(s);
		CHECK(ops(s->cq).poll_cq(s->cq, 1, &wc) == 0);
		ZERO(ops(mw[0]).dealloc_mw(mw[0]));
		ZERO(ops(mw[1]).dealloc_mw(mw[1]));
	} else {
		hear(s, keys, sizeof(keys));
		for (int i = 0; i < 2; i++) {
			fill(s->memory, 100, i);
			sge = piece(s, 0, 100);
			wr = request(1, IBV_WR_RDMA_WRITE, &sge, 1);
			wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address + (i ? 4096 : 5120), keys[i] };
			post(qp, &wr);
			wc = one(s->cq);
			good(&wc, 1, IBV_WC_RDMA_WRITE);
		}
		wr = request(3, IBV_WR_SEND_WITH_INV, NULL, 0);
		wr.imm.invalidate_rkey = keys[1];
		post(qp, &wr);
		wc = one(s->cq);
		good(&wc, 3, IBV_WC_SEND);
		meet(s);
		sge = piece(s, 0, 100);
		wr = request(8, IBV_WR_RDMA_WRITE, &sge, 1);
		wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address + 4096, keys[2] };
		post(qp, &wr);
		wc = one(s->cq);
		CHECK(wc.status == IBV_WC_REM_ACCESS_ERR && wc.wr_id == 8);
		meet(s);
	}
	ZERO(ibv_destroy_qp(qp));
	tear_down(s);
}

static void put(struct side *s, ibv_qp *qp, int offset, uint32_t key, ibv_wc *wc)
{
	ibv_sge sge = piece(s, 0, 100);
	ibv_send_wr wr = request(1, IBV_WR_RDMA_WRITE, &sge, 1);

	wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address + offset, key };
	post(qp, &wr);
	*wc = one(s->cq);
}

/* A window of type 1 belongs to its domain: either of two queue pairs binds it, also while the peer writes, and serves its key. */
static void shared_window(struct side *s)
{
	ibv_qp *qp[2];
	ibv_mw *mw;
	ibv_wc wc;
	uint32_t keys[3];

	set_up(s, 64);
	for (int i = 0; i < 2; i++)
		qp[i] = connected(s, IBV_QPT_RC, NULL);
	fill(s->memory, 100, 9);
	if (s->server) {
		ibv_mw_bind bind = { .wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = { .mr = s->mr,
			.addr = s->mine.address + 4096, .length = 1024, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } };
		unsigned char then[1024];

		memset(s->memory + 4096, 0, 8192);
		CHECK(mw = ops(s->pd).alloc_mw(s->pd, IBV_MW_TYPE_1));
		keys[0] = mw->rkey;
		ZERO(ops(qp[1]).bind_mw(qp[1], mw, &bind));
		/* The call makes the key, and the library needs no other window for it. */
		CHECK(mw->rkey != keys[0] && mw->rkey >> 8 == keys[0] >> 8);
		wc = one(s->cq);
		good(&wc, 1, IBV_WC_BIND_MW);
		tell(s, &mw->rkey, sizeof(mw->rkey));
		meet(s);
		same(s->memory + 4096, 100, 9);
		same(s->memory + 4096 + 200, 100, 9);
		/* The peer writes by queue pair 1 until that is refused. */
		meet(s);
		bind.wr_id = 2;
		bind.bind_info.addr = s->mine.address + 8192;
		ZERO(ops(qp[0]).bind_mw(qp[0], mw, &bind));
		wc = one(s->cq);
		good(&wc, 2, IBV_WC_BIND_MW);
		memcpy(then, s->memory + 4096, sizeof(then));
		tell(s, &mw->rkey, sizeof(mw->rkey));
		meet(s);
		CHECK(!memcmp(then, s->memory + 4096, sizeof(then)));
		same(s->memory + 8192, 100, 9);
		IS(ibv_dereg_mr(s->mr), EBUSY);
		/* Nothing is bound any more. */
		bind.wr_id = 3;
		bind.bind_info.length = 0;
		keys[0] = mw->rkey;
		ZERO(ops(qp[0]).bind_mw(qp[0], mw, &bind));
		CHECK(mw->rkey != keys[0]);
		wc = one(s->cq);
		good(&wc, 3, IBV_WC_BIND_MW);
		tell(s, &mw->rkey, sizeof(mw->rkey));
		meet(s);
		ZERO(ops(mw).dealloc_mw(mw));
	} else {
		time_t end = time(NULL) + PATIENCE;

		hear(s, &keys[0], sizeof(keys[0]));
		for (int i = 0; i < 2; i++) {
			put(s, qp[i], 4096 + 200 * i, keys[0], &wc);
			good(&wc, 1, IBV_WC_RDMA_WRITE);
		}
		meet(s);
		meet(s);
		for (int i = 0; wc.status == IBV_WC_SUCCESS; i++) {
			fill(s->memory, 100, i);
			put(s, qp[1], 4096 + 400, keys[0], &wc);
			CHECK(time(NULL) < end);
		}
		CHECK(wc.status == IBV_WC_REM_ACCESS_ERR);
		fill(s->memory, 100, 9);
		hear(s, &keys[1], sizeof(keys[1]));
		put(s, qp[0], 8192, keys[1], &wc);
		good(&wc, 1, IBV_WC_RDMA_WRITE);
		meet(s);
		hear(s, &keys[2], sizeof(keys[2]));
		put(s, qp[0], 8192, keys[2], &wc);
		CHECK(wc.status == IBV_WC_REM_ACCESS_ERR);
		meet(s);
	}
	for (int i = 0; i < 2; i++)
		ZERO(ibv_destroy_qp(qp[i]));
	tear_down(s);
}

/* What is wrong has the error numbers that the manual pages name. */
static void errors(struct side *s)
{
	ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	ibv_qp_init_attr init;
	ibv_async_event event;
	ibv_device_attr device;
	ibv_device_attr_ex device_ex;
	ibv_port_attr port;
	ibv_gid_entry entries[16];
	ibv_gid gid;
	ibv_qp *qp;
	ibv_wc wc[4];
	ibv_sge sge;
	ibv_send_wr wr, *bad = NULL;
	ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv = NULL;
	uint16_t pkey = 0;

	set_up(s, 64);
	/* Queries. */
	ZERO(ibv_query_device(s->ctx, &device));
	CHECK(device.phys_port_cnt == 1 && device.max_qp > 0 && device.max_cqe > 0 && device.node_guid);
	memset(&device_ex, 0xee, sizeof(device_ex));
	ZERO(table(s->ctx)->query_device_ex(s->ctx, NULL, &device_ex, sizeof(device)));
	CHECK(device_ex.comp_mask == 0xeeeeeeee);
	/* Without the padding at the end. */
	CHECK(!memcmp(&device_ex, &device, offsetof(ibv_device_attr, phys_port_cnt) + 1));
	memset(&port, 0xee, sizeof(port));
	ZERO(ibv_query_port(s->ctx, 1, (struct _compat_ibv_port_attr *)&port));
	CHECK(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET);
	CHECK(port.port_cap_flags2 == 0xeeee);
	ZERO(table(s->ctx)->query_port(s->ctx, 1, &port, 52));
	CHECK(port.port_cap_flags2 == 0 && port.active_speed_ex == 0xeeeeeeee);
	IS(ibv_query_port(s->ctx, 2, (struct _compat_ibv_port_attr *)&port), EINVAL);
	CHECK(_ibv_query_gid_table(s->ctx, entries, 16, 0, sizeof(entries[0])) >= 2);
	CHECK(entries[1].gid_index == 1 && entries[1].gid_type == IBV_GID_TYPE_ROCE_V2 && entries[1].port_num == 1);
	CHECK(_ibv_query_gid_table(s->ctx, entries, 1, 0, sizeof(entries[0])) == -EINVAL);
	ZERO(_ibv_query_gid_ex(s->ctx, 1, 1, &entries[0], 0, sizeof(entries[0])));
	CHECK(!memcmp(&entries[0], &entries[1], sizeof(entries[0])));
	IS(_ibv_query_gid_ex(s->ctx, 1, 15, &entries[0], 0, sizeof(entries[0])), ENODATA);
	IS(ibv_query_gid(s->ctx, 1, 15, &gid), 0);
	CHECK(!gid.global.interface_id && !gid.global.subnet_prefix);
	IS(ibv_query_gid(s->ctx, 1, 1000, &gid), -1);
	IS(ibv_query_pkey(s->ctx, 1, 0, &pkey), 0);
	CHECK(pkey == 0xffff && ibv_get_pkey_index(s->ctx, 1, pkey) == 0);
	IS(ibv_get_pkey_index(s->ctx, 1, 1), -1);
	/* Creation. */
	NO(ibv_create_cq(s->ctx, 0, NULL, NULL, 0), EINVAL);
	NO(ibv_create_cq(s->ctx, 1 << 30, NULL, NULL, 0), EINVAL);
	NO(ibv_create_cq(s->ctx, 16, NULL, NULL, 9999), EINVAL);
	init = (ibv_qp_init_attr){ .send_cq = s->cq, .recv_cq = s->cq, .qp_type = IBV_QPT_XRC_SEND };
	NO(ibv_create_qp(s->pd, &init), EOPNOTSUPP);
	init.qp_type = IBV_QPT_RC;
	init.cap.max_send_sge = 1000;
	NO(ibv_create_qp(s->pd, &init), EINVAL);
	NO(table(s->ctx)->alloc_dm(s->ctx, NULL), EOPNOTSUPP);
	NO(table(s->ctx)->ibv_create_flow(NULL, NULL), EOPNOTSUPP);
	/* By the slots of programs of 2013. */
	NO(((ibv_flow *(*)(ibv_qp *, ibv_flow_attr *))table(s->ctx)->ABI_placeholder1)(NULL, NULL), EOPNOTSUPP);
	IS(((int (*)(ibv_flow *))table(s->ctx)->ABI_placeholder2)(NULL), EOPNOTSUPP);
	IS(ibv_attach_mcast(NULL, NULL, 0), EOPNOTSUPP);
	CHECK(ops(s->cq).poll_cq(s->cq, 0, NULL) == 0);
	IS(table(s->ctx)->close_xrcd(NULL), EOPNOTSUPP);
	ZERO(ibv_resize_cq(s->cq, 8));
	CHECK(s->cq->cqe >= 8 && s->cq->cqe < 64);
	ZERO(ibv_resize_cq(s->cq, 64));
	IS(ibv_resize_cq(s->cq, 0), EINVAL);
	IS(ibv_resize_cq(s->cq, -1), EINVAL);
	IS(ibv_resize_cq(s->cq, 1 << 30), EINVAL);
	CHECK(s->cq->cqe >= 64);
	/* States. */
	qp = make_qp(s, IBV_QPT_RC, NULL, 0);
	wr = request(1, IBV_WR_SEND, NULL, 0);
	IS(post_send(qp, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	IS(post_recv(qp, &recv, &bad_recv), EINVAL);
	IS(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 2;
	IS(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), EINVAL);
	to_init(s, qp);
	ZERO(post_recv(qp, &recv, &bad_recv));
	exchange(s, qp);
	attr = (ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = s->theirs.qpn };
	int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	/* RoCE has a GRH. */
	IS(ibv_modify_qp(qp, &attr, rtr), EINVAL);
	attr.ah_attr = way(s, &s->theirs.gid);
	attr.ah_attr.grh.sgid_index = 15;
	IS(ibv_modify_qp(qp, &attr, rtr), EINVAL);
	to_rts(s, qp);
	wr = request(1, IBV_WR_SEND, NULL, -1);
	wr.send_flags |= IBV_SEND_INLINE;
	IS(post_send(qp, &wr, &bad), EINVAL);
	ZERO(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	CHECK(attr.qp_state == IBV_QPS_RTS && attr.dest_qp_num == s->theirs.qpn && attr.rq_psn == s->theirs.psn);
	CHECK(attr.timeout == 14 && attr.path_mtu == IBV_MTU_1024 && attr.cap.max_send_wr >= 16);
	CHECK(init.send_cq == s->cq && init.qp_type == IBV_QPT_RC && init.sq_sig_all == 0);
	IS(ibv_dealloc_pd(s->pd), EBUSY);
	IS(ibv_destroy_cq(s->cq), EBUSY);
	/* Nothing is there. */
	CHECK(!fcntl(s->ctx->async_fd, F_SETFL, O_NONBLOCK));
	meet(s);
	if (s->server) {
		/* The peer has no right there. */
		event = next_event(s, IBV_EVENT_QP_ACCESS_ERR);
		CHECK(event.element.qp == qp);
		ibv_ack_async_event(&event);
		take(s->cq, wc, 1);
		CHECK(wc[0].status == IBV_WC_WR_FLUSH_ERR && wc[0].wr_id == 1 && wc[0].qp_num == qp->qp_num);
	} else {
		sge = piece(s, 0, 64);
		wr = request(5, IBV_WR_RDMA_WRITE, &sge, 1);
		wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address + BYTES, s->theirs.rkey };
		ibv_send_wr more = request(6, IBV_WR_SEND, NULL, 0);
		wr.next = &more;
		/* Failed requests complete, signalled or not. */
		more.send_flags = 0;
		post(qp, &wr);
		take(s->cq, wc, 3);
		CHECK(wc[0].status == IBV_WC_REM_ACCESS_ERR && wc[0].wr_id == 5 && wc[0].vendor_err);
		for (int i = 1; i < 3; i++)
			CHECK(wc[i].status == IBV_WC_WR_FLUSH_ERR && (wc[i].wr_id == 6 || wc[i].wr_id == 1));
		/* What is posted now is flushed, too. */
		more.wr_id = 7;
		post(qp, &more);
		take(s->cq, wc, 1);
		CHECK(wc[0].status == IBV_WC_WR_FLUSH_ERR && wc[0].wr_id == 7);
	}
	ZERO(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	CHECK(attr.qp_state == IBV_QPS_ERR && qp->state == IBV_QPS_ERR);
	/* From RESET on it is as new. */
	attr.qp_state = IBV_QPS_RESET;
	ZERO(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	meet(s);
	to_init(s, qp);
	receive(s, qp, 20, 0, 64);
	exchange(s, qp);
	to_rts(s, qp);
	meet(s);
	wr = request(21, IBV_WR_SEND, NULL, 0);
	post(qp, &wr);
	take(s->cq, wc, 2);
	CHECK(wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS && wc[0].wr_id + wc[1].wr_id == 41);
	IS(ibv_get_async_event(s->ctx, &event), -1);
	CHECK(errno == EAGAIN);
	/* The send queue drains, and says so. */
	attr = (ibv_qp_attr){ .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	meet(s);
	ZERO(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	event = next_event(s, IBV_EVENT_SQ_DRAINED);
	ibv_ack_async_event(&event);
	ZERO(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	CHECK(attr.qp_state == IBV_QPS_SQD && !attr.sq_draining);
	attr.qp_state = IBV_QPS_RTS;
	ZERO(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	meet(s);
	ZERO(ibv_destroy_qp(qp));
	tear_down(s);
}

/* What a parent has when it forks, and threads that use it meanwhile. */
struct family {
	struct side *s;
	ibv_qp *qp, *busy;
	ibv_qp_ex *ex;
	ibv_srq *srq;
	ibv_comp_channel *channel;
	ibv_cq *cq;
	ibv_cq_ex *cq_ex;
	ibv_ah *ah;
	ibv_mw *mw;
	ibv_td *td;
	ibv_pd *parent;
	int over, done[3];
};

static int over(struct family *f)
{
	return __atomic_load_n(&f->over, __ATOMIC_RELAXED);
}

static void *commands(void *argument)
{
	struct family *f = argument;
	char memory[64];

	while (!over(f)) {
		ibv_pd *pd = ibv_alloc_pd(f->s->ctx);
		ibv_mr *mr;

		CHECK(pd && (mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE)));
		ZERO(ibv_dereg_mr(mr));
		ZERO(ibv_dealloc_pd(pd));
		f->done[0]++;
	}
	return NULL;
}

static void *writes(void *argument)
{
	struct family *f = argument;
	ibv_sge sge = piece(f->s, 0, 64);
	ibv_send_wr wr = request(7, IBV_WR_RDMA_WRITE, &sge, 1);
	ibv_wc wc;

	wr.wr.rdma = (ibv_send_wr_rdma){ f->s->theirs.address + 8192, f->s->theirs.rkey };
	while (!over(f)) {
		post(f->busy, &wr);
		wc = one(f->cq);
		good(&wc, 7, IBV_WC_RDMA_WRITE);
		f->done[1]++;
	}
	return NULL;
}

static void *looks(void *argument)
{
	struct family *f = argument;
	ibv_poll_cq_attr attr = { 0 };

	/* It has the locks of queues most of the time. */
	while (!over(f)) {
		IS(f->cq_ex->start_poll(f->cq_ex, &attr), ENOENT);
		f->ex->wr_start(f->ex);
		f->ex->wr_abort(f->ex);
		f->done[2]++;
	}
	return NULL;
}

/* Every call for what the parent has ends, with an error if it is of any use. */
static void bereft(struct family *f)
{
	struct side *s = f->s;
	ibv_device_attr device;
	ibv_port_attr port;
	ibv_gid gid;
	ibv_gid_entry entry;
	ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	ibv_qp_init_attr init = { .send_cq = s->cq, .recv_cq = s->cq, .qp_type = IBV_QPT_RC };
	ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
	ibv_ah_attr ah = way(s, &s->theirs.gid);
	ibv_mw_bind bind = { .wr_id = 1 };
	ibv_poll_cq_attr poll_attr = { 0 };
	ibv_async_event event = { .event_type = IBV_EVENT_QP_FATAL, .element.qp = f->qp };
	ibv_sge sge = piece(s, 0, 64);
	ibv_send_wr wr = request(1, IBV_WR_SEND, &sge, 1), *bad;
	ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	ibv_wc wc;
	ibv_cq *got;
	void *context;
	int count = -1;

	IS(ibv_query_device(s->ctx, &device), EIO);
	IS(table(s->ctx)->query_port(s->ctx, 1, &port, sizeof(port)), EIO);
	IS(ibv_query_gid(s->ctx, 1, 0, &gid), -1);
	CHECK(_ibv_query_gid_table(s->ctx, &entry, 1, 0, sizeof(entry)) == -EIO);
	NO(ibv_alloc_pd(s->ctx), EIO);
	NO(ibv_reg_mr(s->pd, s->memory, 64, 0), EIO);
	IS(ibv_rereg_mr(s->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	NO(table(s->ctx)->alloc_null_mr(s->pd), EIO);
	NO(ops(s->pd).alloc_mw(s->pd, IBV_MW_TYPE_1), EIO);
	IS(ops(f->qp).bind_mw(f->qp, f->mw, &bind), EIO);
	NO(ibv_create_cq(s->ctx, 1, NULL, NULL, 0), EIO);
	NO(ibv_create_comp_channel(s->ctx), EIO);
	NO(ibv_create_qp(s->pd, &init), EIO);
	NO(ibv_create_srq(s->pd, &srq), EIO);
	NO(ibv_create_ah(s->pd, &ah), EIO);
	/* Rings are the parent's. */
	IS(post_send(f->qp, &wr, &bad), EIO);
	CHECK(bad == &wr);
	IS(post_send(f->busy, &wr, &bad), EIO);
	IS(post_recv(f->qp, &recv, &bad_recv), EIO);
	IS(ops(f->srq).post_srq_recv(f->srq, &recv, &bad_recv), EIO);
	f->ex->wr_start(f->ex);
	f->ex->wr_send(f->ex);
	f->ex->wr_set_sge(f->ex, s->mr->lkey, s->mine.address, 64);
	IS(f->ex->wr_complete(f->ex), EIO);
	CHECK(ops(s->cq).poll_cq(s->cq, 1, &wc) < 0);
	CHECK(ops(f->cq).poll_cq(f->cq, 1, &wc) < 0);
	IS(f->cq_ex->start_poll(f->cq_ex, &poll_attr), EIO);
	IS(ops(f->cq).req_notify_cq(f->cq, 0), EIO);
	IS(ibv_resize_cq(f->cq, 1), EIO);
	/* Descriptors too: a read would take what is the parent's. */
	IS(ibv_get_cq_event(f->channel, &got, &context), -1);
	CHECK(errno == EIO);
	ibv_ack_cq_events(f->cq, 1);
	IS(ibv_get_async_event(s->ctx, &event), -1);
	CHECK(errno == EIO);
	ibv_ack_async_event(&event);
	IS(ibv_modify_qp(f->qp, &attr, IBV_QP_STATE), EIO);
	IS(ibv_query_qp(f->qp, &attr, IBV_QP_STATE, &init), EIO);
	IS(ibv_query_srq(f->srq, &srq.attr), EIO);
	IS(ibv_modify_srq(f->srq, &srq.attr, IBV_SRQ_LIMIT), EIO);
	/* The parent has the card still, so it is busy for the child: by the parent's pointer to the device, and by a list of its own. */
	NO(ibv_open_device(s->ctx->device), EBUSY);
	CHECK(ibv_get_device_guid(s->ctx->device));
	ibv_device **list = ibv_get_device_list(&count);

	CHECK(list && count == 1);
	NO(ibv_open_device(list[0]), EBUSY);
	ibv_free_device_list(list);
	/* Finalisers of the child run: nothing of it reaches the parent's card. */
	ZERO(ibv_destroy_qp(f->qp));
	ZERO(ibv_destroy_qp(f->busy));
	ZERO(ibv_destroy_qp((ibv_qp *)f->ex));
	ZERO(ibv_destroy_srq(f->srq));
	ZERO(ibv_destroy_ah(f->ah));
	ZERO(ops(f->mw).dealloc_mw(f->mw));
	ZERO(ibv_dereg_mr(s->mr));
	ZERO(ibv_destroy_cq(f->cq));
	ZERO(ibv_destroy_cq((ibv_cq *)f->cq_ex));
	ZERO(ibv_destroy_cq(s->cq));
	ZERO(ibv_destroy_comp_channel(f->channel));
	ZERO(ibv_dealloc_pd(f->parent));
	ZERO(table(s->ctx)->dealloc_td(f->td));
	ZERO(ibv_dealloc_pd(s->pd));
	ZERO(ibv_close_device(s->ctx));
	/* What the child writes is its own. */
	memset(s->memory, 0, BYTES);
}

/* A forked child has no part in its parent's card, whatever threads of the parent did when it forked, and the parent goes on. */
static void forks(struct side *s)
{
	struct family f = { .s = s };
	ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	ibv_td_init_attr td = { 0 };
	ibv_parent_domain_init_attr parent = { 0 };
	ibv_cq_init_attr_ex cq = { .cqe = 16 };
	ibv_qp_init_attr_ex ex = { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1,
		.max_recv_sge = 1 }, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND };
	void *(*const work[])(void *) = { commands, writes, looks };
	pthread_t threads[3];
	ibv_cq *plain;
	ibv_sge sge;
	ibv_send_wr wr;
	ibv_wc wc;
	int status;

	ZERO(ibv_fork_init());
	set_up(s, 64);
	CHECK(ibv_is_fork_initialized() != IBV_FORK_DISABLED);
	ibv_ah_attr ah = way(s, &s->mine.gid);

	CHECK(f.srq = ibv_create_srq(s->pd, &srq));
	CHECK(f.channel = ibv_create_comp_channel(s->ctx));
	CHECK(f.cq = ibv_create_cq(s->ctx, 16, NULL, f.channel, 0));
	CHECK(f.cq_ex = table(s->ctx)->create_cq_ex(s->ctx, &cq));
	CHECK(f.ah = ibv_create_ah(s->pd, &ah));
	CHECK(f.mw = ops(s->pd).alloc_mw(s->pd, IBV_MW_TYPE_1));
	CHECK(f.td = table(s->ctx)->alloc_td(s->ctx, &td));
	parent.pd = s->pd;
	parent.td = f.td;
	CHECK(f.parent = table(s->ctx)->alloc_parent_domain(s->ctx, &parent));
	ex.pd = s->pd;
	ex.send_cq = ex.recv_cq = (ibv_cq *)f.cq_ex;
	CHECK(f.ex = ibv_qp_to_qp_ex(table(s->ctx)->create_qp_ex(s->ctx, &ex)));
	f.qp = connected(s, IBV_QPT_RC, NULL);
	plain = s->cq;
	s->cq = f.cq;
	f.busy = connected(s, IBV_QPT_RC, NULL);
	s->cq = plain;
	to_init(s, (ibv_qp *)f.ex);
	fill(s->memory, 100, s->server);
	meet(s);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, work[i], &f));
	for (int i = 0; i < 8; i++) {
		usleep(2000);
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child) {
			side_name = "child";
			alarm(PATIENCE);
			bereft(&f);
			_exit(0);
		}
		status = -1;
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
	__atomic_store_n(&f.over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++) {
		CHECK(!pthread_join(threads[i], NULL));
		CHECK(f.done[i] > 0);
	}
	sge = piece(s, 0, 100);
	wr = request(1, IBV_WR_RDMA_WRITE, &sge, 1);
	wr.wr.rdma = (ibv_send_wr_rdma){ s->theirs.address + 4096, s->theirs.rkey };
	post(f.qp, &wr);
	wc = one(s->cq);
	good(&wc, 1, IBV_WC_RDMA_WRITE);
	meet(s);
	same(s->memory + 4096, 100, !s->server);
	same(s->memory + 8192, 64, !s->server);
	ZERO(ibv_destroy_qp(f.qp));
	ZERO(ibv_destroy_qp(f.busy));
	ZERO(ibv_destroy_qp((ibv_qp *)f.ex));
	ZERO(ibv_destroy_srq(f.srq));
	ZERO(ibv_destroy_ah(f.ah));
	ZERO(ops(f.mw).dealloc_mw(f.mw));
	ZERO(ibv_destroy_cq(f.cq));
	ZERO(ibv_destroy_cq((ibv_cq *)f.cq_ex));
	ZERO(ibv_destroy_comp_channel(f.channel));
	ZERO(ibv_dealloc_pd(f.parent));
	ZERO(table(s->ctx)->dealloc_td(f.td));
	tear_down(s);
}

/* A process lists the devices, or opens one, forks and ends. The card is free, though the child lives. */
static void orphans(struct side *s)
{
	int gate[2], status = -1;
	char mark;

	if (!s->server)
		return;
	CHECK(!pipe(gate));
	for (int open = 0; open < 2; open++) {
		pid_t parent = fork();

		CHECK(parent >= 0);
		if (!parent) {
			close(gate[1]);
			first_free(open);
			pid_t orphan = fork();

			CHECK(orphan >= 0);
			if (!orphan)
				CHECK(read(gate[0], &mark, 1) == 0);
			_exit(0);
		}
		CHECK(waitpid(parent, &status, 0) == parent && status == 0);
	}
	CHECK(s->ctx = first_free(1));
	CHECK(s->pd = ibv_alloc_pd(s->ctx));
	ZERO(ibv_dealloc_pd(s->pd));
	IS(ibv_close_device(s->ctx), 0);
	close(gate[1]);
}

/* Frames of a raw packet queue pair, which the library gives up for the program and takes back. */
static void raw(struct side *s)
{
	ibv_qp_init_attr init = { .qp_type = IBV_QPT_RAW_PACKET,
		.cap = { .max_send_wr = 4, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 } };
	ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	ibv_ah_attr ip, local;
	ibv_gid locals[2];
	ibv_ah *ah;
	ibv_qp *qp;
	ibv_wc wc;
	ibv_sge sge;
	ibv_send_wr wr;
	unsigned char *frame;
	int got = 0;

	/* By IPv4: such a peer is asked for its MAC address. */
	s->gid = 1;
	set_up(s, 64);
	exchange(s, make_qp(s, IBV_QPT_RC, NULL, 0));
	IS(ibv_query_gid(s->ctx, 1, 0, &locals[0]), 0);
	tell(s, &locals[0], sizeof(locals[0]));
	hear(s, &locals[1], sizeof(locals[1]));
	ip = way(s, &s->theirs.gid);
	CHECK(ah = ibv_create_ah(s->pd, &ip));
	ZERO(ibv_destroy_ah(ah));
	meet(s);
	init.send_cq = init.recv_cq = s->cq;
	for (int round = 0; round < 2; round++) {
		CHECK(qp = ibv_create_qp(s->pd, &init));
		/* The card has one. */
		NO(ibv_create_qp(s->pd, &init), EBUSY);
		/* Nothing can be asked now; what needs no question goes on. */
		NO(ibv_create_ah(s->pd, &ip), EHOSTUNREACH);
		s->gid = 0;
		local = way(s, &locals[1]);
		s->gid = 1;
		CHECK(ah = ibv_create_ah(s->pd, &local));
		ZERO(ibv_destroy_ah(ah));
		attr.qp_state = IBV_QPS_INIT;
		ZERO(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT));
		attr.qp_state = IBV_QPS_RTR;
		ZERO(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
		attr.qp_state = IBV_QPS_RTS;
		ZERO(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
		for (int i = 0; i < 4; i++)
			receive(s, qp, i, 8192 + 2048 * i, 2048);
		meet(s);
		/* From the one to the other, by the MAC addresses in the link-local GIDs. */
		frame = s->memory;
		for (int end = 0; end < 2; end++) {
			const unsigned char *id = locals[1 - end].raw + 8;
			const unsigned char mac[6] = { id[0] ^ 2, id[1], id[2], id[5], id[6], id[7] };

			memcpy(frame + 6 * end, mac, 6);
		}
		frame[12] = 0x88;
		frame[13] = 0xb5;
		fill(frame + 14, 200, s->server + round);
		sge = piece(s, 0, 214);
		wr = request(9, IBV_WR_SEND, &sge, 1);
		post(qp, &wr);
		for (int sent = got = 0; !sent || !got;) {
			wc = one(s->cq);
			CHECK(wc.status == IBV_WC_SUCCESS);
			if (wc.wr_id == 9) {
				sent = 1;
				continue;
			}
			/* There may be other frames on the wire. */
			frame = s->memory + 8192 + 2048 * wc.wr_id;
			if (frame[12] == 0x88 && frame[13] == 0xb5) {
				CHECK(wc.byte_len == 214);
				same(frame + 14, 200, !s->server + round);
				got = 1;
			}
		}
		meet(s);
		ZERO(ibv_destroy_qp(qp));
		meet(s);
		/* And it can be asked again. */
		CHECK(ah = ibv_create_ah(s->pd, &ip));
		ZERO(ibv_destroy_ah(ah));
		meet(s);
	}
	/* The queue pair of the exchange stays: a context with objects can be closed. */
	IS(ibv_close_device(s->ctx), 0);
}

/* Threads share a completion queue, and each pair of them a queue pair. */
#define THREADS 4
#define MESSAGES 200

struct worker {
	struct side *s;
	ibv_qp *qp;
	pthread_t thread;
};

static int completed[THREADS];

static void *work(void *argument)
{
	struct worker *worker = argument;
	ibv_send_wr wr = request(worker->qp->qp_num, IBV_WR_RDMA_WRITE, NULL, 0), *bad = NULL;
	ibv_sge sge = piece(worker->s, 0, 256);
	ibv_wc wc[8];
	int posted = 0;

	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.wr.rdma = (ibv_send_wr_rdma){ worker->s->theirs.address + 4096, worker->s->theirs.rkey };
	for (;;) {
		int total = 0;

		for (int i = 0; i < THREADS; i++)
			total += __atomic_load_n(&completed[i], __ATOMIC_RELAXED);
		if (total == THREADS * MESSAGES)
			return NULL;
		if (posted < MESSAGES) {
			int result = post_send(worker->qp, &wr, &bad);

			CHECK(result == 0 || result == ENOMEM);
			posted += result == 0;
		}
		int count = ops(worker->s->cq).poll_cq(worker->s->cq, 8, wc);

		CHECK(count >= 0);
		for (int i = 0; i < count; i++) {
			CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == wc[i].qp_num);
			__atomic_fetch_add(&completed[wc[i].qp_num % THREADS], 1, __ATOMIC_RELAXED);
		}
	}
}

/* It only looks, at a queue that stays empty. Threads that post do not wait for it. */
static int look_on = 1;

static void *look(void *cq)
{
	ibv_wc wc;

	while (__atomic_load_n(&look_on, __ATOMIC_RELAXED))
		CHECK(ops((ibv_cq *)cq).poll_cq(cq, 1, &wc) == 0);
	return NULL;
}

static void threads(struct side *s)
{
	struct worker workers[THREADS];
	pthread_t looker;
	ibv_cq *empty;

	set_up(s, THREADS * MESSAGES);
	CHECK(empty = ibv_create_cq(s->ctx, 1, NULL, NULL, 0));
	CHECK(!pthread_create(&looker, NULL, look, empty));
	for (int i = 0; i < THREADS; i++)
		workers[i] = (struct worker){ .s = s, .qp = connected(s, IBV_QPT_RC, NULL) };
	meet(s);
	if (!s->server)
		for (int i = 0; i < THREADS; i++)
			CHECK(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	for (int i = 0; i < THREADS && !s->server; i++)
		CHECK(!pthread_join(workers[i].thread, NULL));
	meet(s);
	__atomic_store_n(&look_on, 0, __ATOMIC_RELAXED);
	CHECK(!pthread_join(looker, NULL));
	ZERO(ibv_destroy_cq(empty));
	for (int i = 0; i < THREADS; i++)
		ZERO(ibv_destroy_qp(workers[i].qp));
	tear_down(s);
}

/* One queue pair and one completion queue, which two threads use both ways: what the one holds, the other does not need. */
#define SLOTS 8
#define SLOT 64

struct shared {
	struct side *s;
	ibv_qp *qp;
	ibv_qp_ex *ex;
	ibv_cq_ex *cq;
	int sent, received;
};

static int load(const int *number)
{
	return __atomic_load_n(number, __ATOMIC_ACQUIRE);
}

/* A completion: data of receives are compared, and the receive is posted again. */
static void completed_one(struct shared *f, uint64_t id, ibv_wc_status status, int is_receive, uint32_t imm)
{
	CHECK(status == IBV_WC_SUCCESS);
	if (!is_receive) {
		__atomic_fetch_add(&f->sent, 1, __ATOMIC_RELEASE);
		return;
	}
	same(f->s->memory + 8192 + SLOT * id, SLOT, ntohl(imm));
	receive(f->s, f->qp, id, 8192 + SLOT * id, SLOT);
	__atomic_fetch_add(&f->received, 1, __ATOMIC_RELEASE);
}

static void *polls(void *argument)
{
	struct shared *f = argument;
	ibv_poll_cq_attr attr = { 0 };

	while (load(&f->received) < MESSAGES || load(&f->sent) < MESSAGES) {
		int result = f->cq->start_poll(f->cq, &attr);

		if (result == ENOENT)
			continue;
		ZERO(result);
		do {
			int is_receive = f->cq->read_opcode(f->cq) == IBV_WC_RECV;

			completed_one(f, f->cq->wr_id, f->cq->status, is_receive, f->cq->read_imm_data(f->cq));
		} while (f->cq->next_poll(f->cq) == 0);
		f->cq->end_poll(f->cq);
	}
	return NULL;
}

static void shared(struct side *s)
{
	ibv_cq_init_attr_ex cq = { .cqe = 64, .wc_flags = IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_BYTE_LEN };
	ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM };
	struct shared f = { .s = s };
	ibv_qp_attr attr;
	ibv_qp_init_attr was;
	pthread_t thread;
	ibv_cq *plain;
	ibv_wc wc;

	set_up(s, 64);
	plain = s->cq;
	CHECK(f.cq = table(s->ctx)->create_cq_ex(s->ctx, &cq));
	s->cq = (ibv_cq *)f.cq;
	init.pd = s->pd;
	init.send_cq = init.recv_cq = s->cq;
	CHECK(f.qp = table(s->ctx)->create_qp_ex(s->ctx, &init));
	CHECK(f.ex = ibv_qp_to_qp_ex(f.qp));
	to_init(s, f.qp);
	for (int i = 0; i < SLOTS; i++)
		receive(s, f.qp, i, 8192 + SLOT * i, SLOT);
	exchange(s, f.qp);
	to_rts(s, f.qp);
	meet(s);
	CHECK(!pthread_create(&thread, NULL, polls, &f));
	for (int i = 0; i < MESSAGES; i++) {
		while (i - load(&f.sent) >= SLOTS)
			usleep(10);
		fill(s->memory + 4096 + SLOT * (i % SLOTS), SLOT, i);
		f.ex->wr_start(f.ex);
		f.ex->wr_id = i;
		f.ex->wr_flags = 0;
		f.ex->wr_send_imm(f.ex, htonl(i));
		f.ex->wr_set_sge(f.ex, s->mr->lkey, s->mine.address + 4096 + SLOT * (i % SLOTS), SLOT);
		/* In the series it polls, which takes the lock that the other thread has while it posts receives; and it asks for the state. */
		if (ops(s->cq).poll_cq(s->cq, 1, &wc) > 0)
			completed_one(&f, wc.wr_id, wc.status, wc.opcode == IBV_WC_RECV, wc.imm.imm_data);
		if (i % 50 == 0)
			ZERO(ibv_query_qp(f.qp, &attr, IBV_QP_STATE, &was));
		ZERO(f.ex->wr_complete(f.ex));
	}
	CHECK(!pthread_join(thread, NULL));
	CHECK(f.sent == MESSAGES && f.received == MESSAGES);
	meet(s);
	ZERO(ibv_destroy_qp(f.qp));
	ZERO(ibv_destroy_cq(s->cq));
	s->cq = plain;
	tear_down(s);
}

/* A second process gets the device in the list, and cannot open it. */
static void busy(struct side *s)
{
	int count = -1;
	ibv_device **list;

	if (s->server) {
		set_up(s, 16);
		meet(s);
		meet(s);
		tear_down(s);
		return;
	}
	meet(s);
	setenv("FERROWIRE_DEVICE", getenv("FERROWIRE_OTHER"), 1);
	list = ibv_get_device_list(&count);
	CHECK(list && count == 1 && ibv_get_device_guid(list[0]));
	NO(ibv_open_device(list[0]), EBUSY);
	ibv_free_device_list(list);
	/* One that only observes can query it. */
	setenv("FERROWIRE_OBSERVE", "1", 1);
	list = ibv_get_device_list(&count);
	CHECK(list && count == 1);
	CHECK(s->ctx = ibv_open_device(list[0]));
	ibv_device_attr attr;
	ZERO(ibv_query_device(s->ctx, &attr));
	CHECK(attr.max_qp > 0);
	IS(ibv_query_gid(s->ctx, 1, 0, &s->mine.gid), 0);
	NO(ibv_alloc_pd(s->ctx), EBUSY);
	IS(ibv_close_device(s->ctx), 0);
	ibv_free_device_list(list);
	meet(s);
}

/* Commands until the card is gone. */
static void *insists(void *argument)
{
	struct side *s = argument;
	ibv_pd *pd;

	for (errno = 0; (pd = ibv_alloc_pd(s->ctx)); errno = 0)
		ZERO(ibv_dealloc_pd(pd));
	CHECK(errno == EIO);
	return NULL;
}

/* The card goes away. */
static void gone(struct side *s)
{
	ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	ibv_ah_attr ah_attr;
	ibv_comp_channel *channel;
	ibv_async_event event;
	ibv_cq *got, *plain;
	ibv_srq *srq;
	ibv_ah *ah;
	ibv_mw *mw;
	void *context;
	ibv_qp *qp;
	ibv_wc wc;
	ibv_send_wr wr, *bad;
	ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	pthread_t thread;

	set_up(s, 64);
	plain = s->cq;
	ah_attr = way(s, &s->mine.gid);
	CHECK(srq = ibv_create_srq(s->pd, &srq_attr));
	CHECK(ah = ibv_create_ah(s->pd, &ah_attr));
	CHECK(mw = ops(s->pd).alloc_mw(s->pd, IBV_MW_TYPE_2));
	CHECK(channel = ibv_create_comp_channel(s->ctx));
	CHECK(s->cq = ibv_create_cq(s->ctx, 16, NULL, channel, 0));
	qp = connected(s, IBV_QPT_RC, NULL);
	ZERO(ops(s->cq).req_notify_cq(s->cq, 0));
	CHECK(!pthread_create(&thread, NULL, insists, s));
	meet(s);
	if (s->server) {
		/* Whoever runs this ends the cards' server now. */
		printf("ready\n");
		fflush(stdout);
	}
	IS(ibv_get_cq_event(channel, &got, &context), -1);
	CHECK(errno == EIO);
	IS(ibv_get_async_event(s->ctx, &event), 0);
	CHECK(event.event_type == IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&event);
	CHECK(!pthread_join(thread, NULL));
	wr = request(1, IBV_WR_SEND, NULL, 0);
	IS(post_send(qp, &wr, &bad), EIO);
	IS(post_recv(qp, &recv, &bad_recv), EIO);
	IS(ops(srq).post_srq_recv(srq, &recv, &bad_recv), EIO);
	CHECK(bad_recv == &recv);
	CHECK(ops(s->cq).poll_cq(s->cq, 1, &wc) < 0);
	IS(ibv_modify_qp(qp, &error, IBV_QP_STATE), EIO);
	NO(ibv_alloc_pd(s->ctx), EIO);
	/* Everything can be given back. */
	ZERO(ibv_destroy_qp(qp));
	ZERO(ibv_destroy_srq(srq));
	ZERO(ibv_destroy_ah(ah));
	ZERO(ops(mw).dealloc_mw(mw));
	ZERO(ibv_destroy_cq(s->cq));
	ZERO(ibv_destroy_comp_channel(channel));
	s->cq = plain;
	tear_down(s);
	/* Neither ends while the other one writes to it. */
	meet(s);
}

/* Two contexts of one device, and a queue pair with two completion queues. */
static void contexts(struct side *s)
{
	ibv_modify_cq_attr moderation = { .attr_mask = 1 << 5 };
	ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
	ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct epoll_event ready = { .events = EPOLLIN };
	struct pollfd first = { .events = POLLIN };
	struct side second;
	ibv_async_event event;
	ibv_cq *receives;
	ibv_send_wr wr;
	ibv_sge sge;
	ibv_wc wc;
	ibv_qp *qp;
	int queue;

	set_up(s, 64);
	second = *s;
	CHECK(second.ctx = ibv_open_device(s->ctx->device));
	CHECK(second.ctx != s->ctx && second.ctx->async_fd != s->ctx->async_fd);
	CHECK(second.pd = ibv_alloc_pd(second.ctx));
	/* The same memory once more. */
	CHECK(second.mr = ibv_reg_mr(second.pd, s->memory, BYTES, IBV_ACCESS_LOCAL_WRITE));
	CHECK(second.cq = ibv_create_cq(second.ctx, 4, NULL, NULL, 0));
	CHECK(receives = ibv_create_cq(second.ctx, 4, NULL, NULL, 0));
	IS(table(second.ctx)->modify_cq(receives, &moderation), EOPNOTSUPP);
	init.send_cq = second.cq;
	init.recv_cq = receives;
	CHECK(qp = ibv_create_qp(second.pd, &init));
	to_init(&second, qp);
	receive(&second, qp, 1, 8192, 64);
	exchange(&second, qp);
	to_rts(&second, qp);
	meet(s);
	fill(s->memory, 64, s->server);
	sge = piece(&second, 0, 64);
	wr = request(2, IBV_WR_SEND, &sge, 1);
	post(qp, &wr);
	wc = one(second.cq);
	good(&wc, 2, IBV_WC_SEND);
	wc = one(receives);
	good(&wc, 1, IBV_WC_RECV);
	same(s->memory + 8192, 64, !s->server);
	CHECK(ops(second.cq).poll_cq(second.cq, 1, &wc) == 0 && ops(receives).poll_cq(receives, 1, &wc) == 0);
	meet(s);
	/* An event goes to the context of its object. */
	ZERO(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	CHECK((queue = epoll_create1(0)) >= 0);
	CHECK(!epoll_ctl(queue, EPOLL_CTL_ADD, second.ctx->async_fd, &ready));
	CHECK(epoll_wait(queue, &ready, 1, PATIENCE * 1000) == 1);
	IS(ibv_get_async_event(second.ctx, &event), 0);
	CHECK(event.event_type == IBV_EVENT_SQ_DRAINED && event.element.qp == qp);
	CHECK(epoll_wait(queue, &ready, 1, 0) == 0);
	close(queue);
	first.fd = s->ctx->async_fd;
	CHECK(poll(&first, 1, 0) == 0);
	ibv_ack_async_event(&event);
	ZERO(ibv_destroy_qp(qp));
	ZERO(ibv_destroy_cq(second.cq));
	ZERO(ibv_destroy_cq(receives));
	ZERO(ibv_dereg_mr(second.mr));
	ZERO(ibv_dealloc_pd(second.pd));
	IS(ibv_close_device(second.ctx), 0);
	tear_down(s);
}

static void rc_ip(struct side *s)
{
	s->gid = 1;
	rc(s);
}

static void ud_ip(struct side *s)
{
	s->gid = 1;
	ud(s);
}

static const struct test_case cases[] = {
	{ "rc", rc }, { "uc", uc }, { "ud", ud }, { "srq", srq }, { "events", events }, { "moderation", moderation }, { "acks", acks },
	{ "extended", extended }, { "memory", memory }, { "windows", windows }, { "shared_window", shared_window }, { "errors", errors },
	{ "forks", forks }, { "orphans", orphans }, { "threads", threads }, { "shared", shared }, { "busy", busy },
	{ "gone", gone }, { "raw", raw }, { "rc-ip", rc_ip }, { "ud-ip", ud_ip },
	{ "contexts", contexts }, { "resizes", resizes },
};

int main(int argc, char **argv)
{
	return run_case(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), NULL);
}
