/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Queue pairs, memory and requests of the programs that use libibverbs alone. */
#ifndef FERROWIRE_TESTS_QUEUES_H
#define FERROWIRE_TESTS_QUEUES_H

#include <poll.h>
#include <stddef.h>
#include <time.h>

#include "side.h"

#define BYTES 16384
#define QKEY 0x11223344

/* A call that returns 0 or an error number. */
#define ZERO(call) do { int result_ = (call); if (result_) { errno = result_; wrong(__LINE__, #call); } } while (0)
/* A call that returns null and sets errno. */
#define NO(call, number) do { errno = 0; CHECK((call) == NULL); CHECK(errno == (number)); } while (0)

#define table(ctx) ((verbs_context *)((char *)(ctx) - offsetof(verbs_context, context)))

static inline void set_up(struct side *s, int entries)
{
	int count = -1;
	ibv_device **list = ibv_get_device_list(&count);
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

	CHECK(list && count == 1 && list[0] && !list[1]);
	CHECK(!strncmp(ibv_get_device_name(list[0]), "ferrowire", 9));
	CHECK(s->ctx = ibv_open_device(list[0]));
	CHECK(ibv_get_device_guid(list[0]) != 0);
	ibv_free_device_list(list);
	CHECK(s->pd = ibv_alloc_pd(s->ctx));
	CHECK(s->cq = ibv_create_cq(s->ctx, entries, s, NULL, 0));
	CHECK(s->cq->cqe >= entries && s->cq->cq_context == s);
	CHECK(s->memory = calloc(1, BYTES + 64));
	/* Not aligned to anything. */
	s->memory += 24;
	CHECK(s->mr = ibv_reg_mr(s->pd, s->memory, BYTES, access));
	IS(ibv_query_gid(s->ctx, 1, s->gid, &s->mine.gid), 0);
	s->mine.address = (uintptr_t)s->memory;
	s->mine.rkey = s->mr->rkey;
}

static inline void tear_down(struct side *s)
{
	ZERO(ibv_dereg_mr(s->mr));
	ZERO(ibv_destroy_cq(s->cq));
	ZERO(ibv_dealloc_pd(s->pd));
	IS(ibv_close_device(s->ctx), 0);
	free(s->memory - 24);
}

static inline ibv_qp *make_qp(struct side *s, ibv_qp_type type, ibv_srq *srq, int sig_all)
{
	ibv_qp_init_attr init = {
		.qp_context = s, .send_cq = s->cq, .recv_cq = s->cq, .srq = srq, .qp_type = type, .sq_sig_all = sig_all,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 3, .max_recv_sge = 2, .max_inline_data = 64 },
	};
	ibv_qp *qp = ibv_create_qp(s->pd, &init);

	CHECK(qp && qp->qp_num && qp->state == IBV_QPS_RESET && qp->qp_context == s && qp->qp_type == type);
	CHECK(init.cap.max_send_wr >= 16 && init.cap.max_send_sge >= 3 && init.cap.max_inline_data >= 64);
	return qp;
}

static inline void to_init(struct side *s, ibv_qp *qp)
{
	ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	(void)s;
	ZERO(ibv_modify_qp(qp, &attr, mask | (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	CHECK(qp->state == IBV_QPS_INIT);
}

static inline ibv_ah_attr way(const struct side *s, const ibv_gid *gid)
{
	return (ibv_ah_attr){ .is_global = 1, .port_num = 1,
		.grh = { .dgid = *gid, .sgid_index = s->gid, .hop_limit = 64 } };
}

/* Both ends of a queue pair learn of each other. */
static inline void exchange(struct side *s, ibv_qp *qp)
{
	s->mine.qpn = qp->qp_num;
	s->mine.psn = 0x123400 + qp->qp_num;
	tell(s, &s->mine, sizeof(s->mine));
	hear(s, &s->theirs, sizeof(s->theirs));
}

static inline void to_rtr(struct side *s, ibv_qp *qp)
{
	ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = s->theirs.qpn,
		.rq_psn = s->theirs.psn, .max_dest_rd_atomic = 4, .min_rnr_timer = 12, .ah_attr = way(s, &s->theirs.gid) };
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (qp->qp_type == IBV_QPT_UD)
		mask = IBV_QP_STATE;
	ZERO(ibv_modify_qp(qp, &attr, mask));
}

static inline void to_rts(struct side *s, ibv_qp *qp)
{
	ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .sq_psn = s->mine.psn,
		.timeout = s->timeout ? s->timeout : 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4 };
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->state == IBV_QPS_INIT)
		to_rtr(s, qp);
	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	ZERO(ibv_modify_qp(qp, &attr, mask));
	CHECK(qp->state == IBV_QPS_RTS);
}

static inline ibv_qp *connected(struct side *s, ibv_qp_type type, ibv_srq *srq)
{
	ibv_qp *qp = make_qp(s, type, srq, 0);

	to_init(s, qp);
	exchange(s, qp);
	to_rts(s, qp);
	return qp;
}

static inline void take(ibv_cq *cq, ibv_wc *wc, int count)
{
	time_t end = time(NULL) + PATIENCE;
	int have = 0;

	while (have < count) {
		int more = ops(cq).poll_cq(cq, count - have, wc + have);

		CHECK(more >= 0);
		have += more;
		CHECK(time(NULL) < end);
	}
}

static inline ibv_wc one(ibv_cq *cq)
{
	ibv_wc wc;

	take(cq, &wc, 1);
	return wc;
}

static inline ibv_sge piece(const struct side *s, int offset, int length)
{
	return (ibv_sge){ .addr = (uintptr_t)s->memory + offset, .length = length, .lkey = s->mr->lkey };
}

static inline void receive(struct side *s, ibv_qp *qp, uint64_t id, int offset, int length)
{
	ibv_sge sge = piece(s, offset, length);
	ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;

	ZERO(post_recv(qp, &wr, &bad));
}

static inline ibv_send_wr request(uint64_t id, ibv_wr_opcode opcode, ibv_sge *sges, int count)
{
	return (ibv_send_wr){ .wr_id = id, .opcode = opcode, .sg_list = sges, .num_sge = count,
		.send_flags = IBV_SEND_SIGNALED };
}

static inline void post(ibv_qp *qp, ibv_send_wr *wr)
{
	ibv_send_wr *bad = NULL;

	ZERO(post_send(qp, wr, &bad));
}

static inline void good(const ibv_wc *wc, uint64_t id, ibv_wc_opcode opcode)
{
	if (wc->status != IBV_WC_SUCCESS)
		fprintf(stderr, "%s: ", ibv_wc_status_str(wc->status));
	CHECK(wc->status == IBV_WC_SUCCESS);
	CHECK(wc->wr_id == id);
	CHECK(wc->opcode == opcode);
}

static inline ibv_async_event next_event(struct side *s, ibv_event_type type)
{
	struct pollfd file = { .fd = s->ctx->async_fd, .events = POLLIN };
	ibv_async_event event;

	CHECK(poll(&file, 1, PATIENCE * 1000) == 1);
	IS(ibv_get_async_event(s->ctx, &event), 0);
	if (event.event_type != type)
		fprintf(stderr, "event %s: ", ibv_event_type_str(event.event_type));
	CHECK(event.event_type == type);
	return event;
}

/* Claims the card, or opens it, when it is free: the server may still be about to see that its program has ended. */
static inline ibv_context *first_free(int open)
{
	for (int i = 0; i < 1000; i++) {
		int count = -1;
		ibv_device **list = ibv_get_device_list(&count);
		ibv_context *ctx;

		CHECK(list && count == 1);
		if (!open) {
			ibv_free_device_list(list);
			return NULL;
		}
		ctx = ibv_open_device(list[0]);
		ibv_free_device_list(list);
		if (ctx)
			return ctx;
		CHECK(errno == EBUSY);
		usleep(10 * 1000);
	}
	wrong(__LINE__, "the card stays in use");
	return NULL;
}

#endif
