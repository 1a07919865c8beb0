/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Connections between two cards, by librdmacm: the server has 10.7.0.1, the client 10.7.0.2. See `side.h`. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>

#include "side.h"

#define BYTES 4096
#define PORT 7174
#define SERVER "10.7.0.1"
#define CLIENT "10.7.0.2"
#define TIMEOUT 10000

#define OK(call) IS(call, 0)
/* A call that returns -1 and sets errno. */
#define NO(call, number) do { errno = 0; IS(call, -1); IS(errno, number); } while (0)

static struct sockaddr *at(const char *ip, int port)
{
	static struct sockaddr_in all[4];
	static int next;
	struct sockaddr_in *one = &all[next++ % 4];

	*one = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	CHECK(inet_pton(AF_INET, ip, &one->sin_addr) == 1);
	return (struct sockaddr *)one;
}

static int is_at(const void *address, const char *ip)
{
	const struct sockaddr_in *in = address;
	struct in_addr expected;

	CHECK(inet_pton(AF_INET, ip, &expected) == 1);
	return in->sin_family == AF_INET && in->sin_addr.s_addr == expected.s_addr;
}

/* The next event, which must be of this kind. */
static rdma_cm_event *event(rdma_event_channel *channel, int kind)
{
	rdma_cm_event *got = NULL;
	struct pollfd look = { .fd = channel->fd, .events = POLLIN };

	CHECK(poll(&look, 1, 1000 * PATIENCE) == 1);
	OK(rdma_get_cm_event(channel, &got));
	CHECK(got);
	if ((int)got->event != kind) {
		fprintf(stderr, "%s, status %d, not %s: ", rdma_event_str(got->event), got->status, rdma_event_str(kind));
		wrong(__LINE__, "kind of event");
	}
	return got;
}

/* One with nothing to look at. */
static void passes(rdma_event_channel *channel, int kind)
{
	rdma_cm_event *got = event(channel, kind);

	IS(got->status, 0);
	OK(rdma_ack_cm_event(got));
}

static int is_empty(rdma_event_channel *channel)
{
	struct pollfd look = { .fd = channel->fd, .events = POLLIN };

	return poll(&look, 1, 0) == 0;
}

static ibv_qp_init_attr queues(ibv_qp_type type)
{
	return (ibv_qp_init_attr){ .qp_type = type, .sq_sig_all = 1,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2 } };
}

/* Waits as rdma_get_send_comp and rdma_get_recv_comp of rdma-core's headers do. */
static ibv_wc completion(ibv_cq *cq, ibv_comp_channel *channel)
{
	ibv_wc wc;
	ibv_cq *told;
	void *context;

	for (;;) {
		int count = ops(cq).poll_cq(cq, 1, &wc);

		CHECK(count >= 0);
		if (count)
			return wc;
		OK(ops(cq).req_notify_cq(cq, 0));
		count = ops(cq).poll_cq(cq, 1, &wc);
		if (count)
			return wc;
		OK(ibv_get_cq_event(channel, &told, &context));
		CHECK(told == cq);
		ibv_ack_cq_events(cq, 1);
	}
}

static void sent(rdma_cm_id *id)
{
	ibv_wc wc = completion(id->send_cq, id->send_cq_channel);

	IS(wc.status, IBV_WC_SUCCESS);
}

static ibv_wc received(rdma_cm_id *id)
{
	ibv_wc wc = completion(id->recv_cq, id->recv_cq_channel);

	IS(wc.status, IBV_WC_SUCCESS);
	return wc;
}

static void post(rdma_cm_id *id, ibv_mr *mr, ibv_wr_opcode opcode, int offset, int length, uint64_t remote, uint32_t rkey)
{
	ibv_sge sge = { .addr = (uintptr_t)mr->addr + offset, .length = length, .lkey = mr->lkey };
	ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED }, *bad;

	wr.wr.rdma = (ibv_send_wr_rdma){ remote, rkey };
	OK(post_send(id->qp, &wr, &bad));
}

static void receive(rdma_cm_id *id, ibv_mr *mr, int offset, int length)
{
	ibv_sge sge = { .addr = (uintptr_t)mr->addr + offset, .length = length, .lkey = mr->lkey };
	ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	OK(post_recv(id->qp, &wr, &bad));
}

static ibv_mr *memory(rdma_cm_id *id)
{
	unsigned char *bytes = calloc(1, BYTES);
	ibv_mr *mr;

	CHECK(bytes);
	CHECK(mr = ibv_reg_mr(id->pd, bytes, BYTES,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
	return mr;
}

static void forget(ibv_mr *mr)
{
	void *bytes = mr->addr;

	OK(ibv_dereg_mr(mr));
	free(bytes);
}

/* Messages both ways, and a WRITE and a READ of the client. */
static void exchange(struct side *s, rdma_cm_id *id)
{
	ibv_mr *mr = memory(id);
	unsigned char *bytes = mr->addr;
	struct { uint64_t address; uint32_t rkey; } mine = { (uintptr_t)mr->addr, mr->rkey }, theirs;

	receive(id, mr, 0, 1024);
	tell(s, &mine, sizeof(mine));
	hear(s, &theirs, sizeof(theirs));
	fill(bytes + 1024, 1000, s->server);
	post(id, mr, IBV_WR_SEND, 1024, 1000, 0, 0);
	sent(id);
	ibv_wc wc = received(id);
	IS(wc.byte_len, 1000);
	same(bytes, 1000, !s->server);
	meet(s);
	if (!s->server) {
		post(id, mr, IBV_WR_RDMA_WRITE, 1024, 512, theirs.address + 2048, theirs.rkey);
		sent(id);
		post(id, mr, IBV_WR_RDMA_READ, 3072, 512, theirs.address + 2048, theirs.rkey);
		sent(id);
		same(bytes + 3072, 512, s->server);
	}
	meet(s);
	if (s->server)
		same(bytes + 2048, 512, !s->server);
	forget(mr);
}

static rdma_cm_id *make(struct side *s, rdma_port_space space, void *context)
{
	rdma_cm_id *id = NULL;

	OK(rdma_create_id(s->channel, &id, context, space));
	CHECK(id && id->channel == s->channel && id->context == context && id->ps == space && !id->qp);
	return id;
}

static rdma_cm_id *listener(struct side *s, rdma_port_space space, const char *ip, int port)
{
	rdma_cm_id *id = make(s, space, s);

	OK(rdma_bind_addr(id, at(ip, port)));
	OK(rdma_listen(id, 4));
	IS(rdma_get_src_port(id), htons(port));
	return id;
}

static rdma_cm_id *resolved(struct side *s, rdma_port_space space, const char *ip, int port)
{
	rdma_cm_id *id = make(s, space, s);

	OK(rdma_resolve_addr(id, NULL, at(ip, port), TIMEOUT));
	passes(s->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(id->verbs && id->pd && id->pd->context == id->verbs && id->port_num == 1);
	CHECK(is_at(&id->route.addr.src, CLIENT) && is_at(&id->route.addr.dst, ip));
	CHECK(rdma_get_src_port(id) != 0);
	IS(rdma_get_dst_port(id), htons(port));
	OK(rdma_resolve_route(id, TIMEOUT));
	passes(s->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	IS(id->route.num_paths, 1);
	CHECK(id->route.path_rec && id->route.path_rec->mtu >= IBV_MTU_1024 && id->route.path_rec->pkey == 0xffff);
	return id;
}

static void begins(const rdma_cm_event *got, const char *text)
{
	CHECK(got->param.conn.private_data_len >= strlen(text));
	CHECK(!memcmp(got->param.conn.private_data, text, strlen(text)));
}

static rdma_conn_param saying(const char *text)
{
	return (rdma_conn_param){ .private_data = text, .private_data_len = strlen(text), .responder_resources = 2,
		.initiator_depth = 2, .retry_count = 5, .rnr_retry_count = 7 };
}

/* The next request to a listener, with a queue pair. */
static rdma_cm_id *request(struct side *s, rdma_cm_id *listen, ibv_qp_type type)
{
	rdma_cm_event *got = event(s->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	rdma_cm_id *id = got->id;
	ibv_qp_init_attr attr = queues(type);

	CHECK(id != listen && got->listen_id == listen && id->context == listen->context && id->channel == s->channel);
	CHECK(id->verbs && id->pd && id->port_num == 1);
	CHECK(is_at(&id->route.addr.src, SERVER) && is_at(&id->route.addr.dst, CLIENT));
	OK(rdma_create_qp(id, NULL, &attr));
	CHECK(id->qp && id->send_cq && id->recv_cq && id->send_cq_channel && id->recv_cq_channel);
	CHECK(attr.cap.max_send_wr >= 8 && attr.send_cq == id->send_cq);
	begins(got, "hello");
	if (type == IBV_QPT_RC) {
		IS(got->param.conn.responder_resources, 2);
		IS(got->param.conn.retry_count, 5);
		CHECK(got->param.conn.qp_num);
	}
	OK(rdma_ack_cm_event(got));
	return id;
}

static void end(rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	CHECK(!id->qp && !id->send_cq && !id->recv_cq && !id->send_cq_channel && !id->recv_cq_channel);
	OK(rdma_destroy_id(id));
}

/* A connection of the asynchronous interface; the listener of the server. */
static rdma_cm_id *connected(struct side *s, rdma_cm_id **listen)
{
	rdma_cm_id *id;

	if (s->server) {
		rdma_conn_param param = saying("welcome");

		*listen = listener(s, RDMA_PS_TCP, "0.0.0.0", PORT);
		meet(s);
		id = request(s, *listen, IBV_QPT_RC);
		OK(rdma_accept(id, &param));
		IS(id->qp->state, IBV_QPS_RTS);
		passes(s->channel, RDMA_CM_EVENT_ESTABLISHED);
	} else {
		rdma_conn_param param = saying("hello");
		ibv_qp_init_attr attr = queues(IBV_QPT_RC);
		rdma_cm_event *got;

		meet(s);
		id = resolved(s, RDMA_PS_TCP, SERVER, PORT);
		OK(rdma_create_qp(id, id->pd, &attr));
		IS(id->qp->state, IBV_QPS_INIT);
		OK(rdma_connect(id, &param));
		got = event(s->channel, RDMA_CM_EVENT_ESTABLISHED);
		CHECK(got->id == id && got->listen_id == NULL);
		begins(got, "welcome");
		IS(id->qp->state, IBV_QPS_RTS);
		OK(rdma_ack_cm_event(got));
		*listen = NULL;
	}
	return id;
}

/* Threads of the library leave the program's signals to the program's threads. */
static void quiet(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	int found = 0;

	CHECK(tasks);
	while ((task = readdir(tasks))) {
		char path[300], line[256];
		unsigned long long blocked = 0;
		FILE *file;

		if (task->d_name[0] == '.' || atoi(task->d_name) == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
		CHECK(file = fopen(path, "r"));
		while (fgets(line, sizeof(line), file))
			sscanf(line, "SigBlk: %llx", &blocked);
		fclose(file);
		CHECK(blocked & 1 << (SIGTERM - 1) && blocked & 1 << (SIGINT - 1));
		found++;
	}
	closedir(tasks);
	CHECK(found >= 2);
}

static void rc(struct side *s)
{
	ibv_qp_attr attr;
	ibv_qp_init_attr init;
	rdma_cm_id *listen, *id = connected(s, &listen);

	quiet();
	OK(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init));
	IS(attr.qp_state, IBV_QPS_RTS);
	IS(attr.max_rd_atomic, 2);
	CHECK(attr.dest_qp_num && attr.ah_attr.is_global && attr.path_mtu >= IBV_MTU_1024);
	if (s->server) {
		rdma_conn_param param = saying("welcome");

		/* Once is enough, and a second time changes nothing. */
		NO(rdma_accept(id, &param), EINVAL);
		IS(id->qp->state, IBV_QPS_RTS);
	}
	exchange(s, id);
	if (!s->server) {
		OK(rdma_disconnect(id));
		IS(id->qp->state, IBV_QPS_ERR);
	}
	passes(s->channel, RDMA_CM_EVENT_DISCONNECTED);
	/* The other side has ended it; this changes the queue pair alone. */
	OK(rdma_disconnect(id));
	IS(id->qp->state, IBV_QPS_ERR);
	meet(s);
	end(id);
	if (s->server)
		OK(rdma_destroy_id(listen));
}

static void reject(struct side *s)
{
	rdma_cm_event *got;
	ibv_qp_init_attr attr = queues(IBV_QPT_RC);

	if (s->server) {
		rdma_cm_id *listen = listener(s, RDMA_PS_TCP, SERVER, PORT);

		CHECK(listen->verbs && listen->port_num == 1);
		meet(s);
		for (int i = 0; i < 3; i++) {
			got = event(s->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
			if (i == 0)
				OK(rdma_reject(got->id, "no", 2));
			if (i == 1)
				OK(rdma_reject_ece(got->id, NULL, 0));
			/* The end of a request refuses it; its event may be acknowledged after that. */
			OK(rdma_destroy_id(got->id));
			OK(rdma_ack_cm_event(got));
		}
		meet(s);
		OK(rdma_destroy_id(listen));
		return;
	}
	meet(s);
	for (int i = 0; i < 4; i++) {
		rdma_conn_param param = saying("hello");
		rdma_cm_id *id = resolved(s, RDMA_PS_TCP, SERVER, i < 3 ? PORT : PORT + 1);
		static const int reasons[] = { 28, 35, 28, 8 };

		OK(rdma_create_qp(id, NULL, &attr));
		attr = queues(IBV_QPT_RC);
		OK(rdma_connect(id, &param));
		got = event(s->channel, RDMA_CM_EVENT_REJECTED);
		CHECK(got->id == id);
		IS(got->status, reasons[i]);
		if (i == 0)
			begins(got, "no");
		OK(rdma_ack_cm_event(got));
		IS(id->qp->state, IBV_QPS_ERR);
		end(id);
	}
	meet(s);
}

/* Synchronous identifiers, as in the manual page of rdma_create_ep. */
static void endpoints(struct side *s)
{
	rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = s->server ? RAI_PASSIVE : 0 }, *info = NULL;
	ibv_qp_init_attr attr = queues(IBV_QPT_RC);
	rdma_cm_id *listen = NULL, *id = NULL;
	rdma_conn_param param = saying("hello");
	rdma_cm_event *got;

	OK(rdma_getaddrinfo(SERVER, "7174", &hints, &info));
	IS(info->ai_qp_type, IBV_QPT_RC);
	if (s->server) {
		CHECK(is_at(info->ai_src_addr, SERVER) && !info->ai_dst_addr);
		OK(rdma_create_ep(&listen, info, NULL, &attr));
		OK(rdma_listen(listen, 0));
		meet(s);
		OK(rdma_get_request(listen, &id));
		CHECK(id->qp && id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST && !listen->event);
		CHECK(id->channel && id->channel != listen->channel);
		begins(id->event, "hello");
		OK(rdma_accept(id, &param));
		IS(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	} else {
		CHECK(is_at(info->ai_dst_addr, SERVER) && !info->ai_src_addr);
		meet(s);
		OK(rdma_create_ep(&id, info, NULL, &attr));
		CHECK(id->qp && id->verbs && id->channel);
		OK(rdma_connect(id, &param));
		IS(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	}
	exchange(s, id);
	if (s->server) {
		/* The client disconnects; the event says so. */
		OK(rdma_get_cm_event(id->channel, &got));
		IS(got->event, RDMA_CM_EVENT_DISCONNECTED);
		OK(rdma_ack_cm_event(got));
	}
	OK(rdma_disconnect(id));
	OK(rdma_disconnect(id));
	meet(s);
	rdma_destroy_ep(id);
	/* A refusal is an errno. */
	if (s->server) {
		OK(rdma_get_request(listen, &id));
		OK(rdma_reject(id, NULL, 0));
		/* There is nothing to wait for. */
		OK(rdma_disconnect(id));
		rdma_destroy_ep(id);
		meet(s);
		rdma_destroy_ep(listen);
	} else {
		/* The first one has left its queues there. */
		attr = queues(IBV_QPT_RC);
		OK(rdma_create_ep(&id, info, NULL, &attr));
		NO(rdma_connect(id, &param), ECONNREFUSED);
		IS(id->event->event, RDMA_CM_EVENT_REJECTED);
		/* There is nothing to wait for. */
		OK(rdma_disconnect(id));
		rdma_destroy_ep(id);
		meet(s);
	}
	rdma_freeaddrinfo(info);
}

/* Datagrams, found by SIDR. */
static void ud(struct side *s)
{
	rdma_cm_event *got;
	rdma_cm_id *listen = NULL, *id;
	ibv_mr *mr;
	ibv_wc wc;

	if (s->server) {
		rdma_conn_param param = saying("welcome");

		listen = listener(s, RDMA_PS_UDP, "0.0.0.0", PORT);
		meet(s);
		id = request(s, listen, IBV_QPT_UD);
		IS(id->qp->state, IBV_QPS_RTS);
		mr = memory(id);
		receive(id, mr, 0, 1024);
		param.qp_num = id->qp->qp_num;
		OK(rdma_accept(id, &param));
		wc = received(id);
		IS(wc.byte_len, GRH + 500);
		same((unsigned char *)mr->addr + GRH, 500, 3);
		/* The way back is in the headers. */
		ibv_ah *ah = ibv_create_ah_from_wc(id->pd, &wc, mr->addr, id->port_num);

		CHECK(ah);
		OK(ibv_destroy_ah(ah));
		meet(s);
	} else {
		rdma_conn_param param = saying("hello");
		ibv_qp_init_attr attr = queues(IBV_QPT_UD);

		meet(s);
		id = resolved(s, RDMA_PS_UDP, SERVER, PORT);
		OK(rdma_create_qp(id, NULL, &attr));
		IS(id->qp->state, IBV_QPS_RTS);
		mr = memory(id);
		OK(rdma_connect(id, &param));
		got = event(s->channel, RDMA_CM_EVENT_ESTABLISHED);
		CHECK(got->id == id && got->param.ud.qp_num && got->param.ud.qkey == RDMA_UDP_QKEY);
		CHECK(got->param.ud.ah_attr.is_global && got->param.ud.ah_attr.port_num == 1);
		CHECK(!memcmp(got->param.ud.private_data, "welcome", 7));
		ibv_ah *ah = ibv_create_ah(id->pd, &got->param.ud.ah_attr);

		CHECK(ah);
		fill(mr->addr, 500, 3);
		ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = 500, .lkey = mr->lkey };
		ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

		wr.wr.ud = (ibv_send_wr_ud){ ah, got->param.ud.qp_num, got->param.ud.qkey };
		OK(rdma_ack_cm_event(got));
		OK(post_send(id->qp, &wr, &bad));
		sent(id);
		OK(ibv_destroy_ah(ah));
		meet(s);
	}
	OK(rdma_disconnect(id));
	forget(mr);
	end(id);
	/* A service that is not there. */
	if (!s->server) {
		rdma_conn_param param = saying("hello");

		id = resolved(s, RDMA_PS_UDP, SERVER, PORT + 1);
		OK(rdma_connect(id, &param));
		got = event(s->channel, RDMA_CM_EVENT_UNREACHABLE);
		CHECK(got->status > 0);
		OK(rdma_ack_cm_event(got));
		OK(rdma_destroy_id(id));
	}
	meet(s);
	if (s->server)
		OK(rdma_destroy_id(listen));
}

struct waiter {
	rdma_cm_id *id;
	rdma_cm_event *got;
	int done;
};

static void *destroys(void *argument)
{
	struct waiter *w = argument;

	OK(rdma_destroy_id(w->id));
	__atomic_store_n(&w->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Channels that do not block, epoll, acknowledgements, other channels. */
static void events(struct side *s)
{
	rdma_cm_event *got = NULL;
	rdma_event_channel *second;
	rdma_cm_id *id;
	struct epoll_event ready;
	struct waiter w = { 0 };
	pthread_t thread;
	int flags, set;

	if (s->server) {
		/* Its card answers. */
		id = listener(s, RDMA_PS_TCP, SERVER, PORT);
		meet(s);
		meet(s);
		OK(rdma_destroy_id(id));
		return;
	}
	meet(s);
	flags = fcntl(s->channel->fd, F_GETFL);
	CHECK(flags >= 0 && !fcntl(s->channel->fd, F_SETFL, flags | O_NONBLOCK));
	NO(rdma_get_cm_event(s->channel, &got), EAGAIN);
	CHECK((set = epoll_create1(0)) >= 0);
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, s->channel->fd, &(struct epoll_event){ .events = EPOLLIN | EPOLLET }));
	IS(epoll_wait(set, &ready, 1, 0), 0);
	id = make(s, RDMA_PS_TCP, NULL);
	OK(rdma_resolve_addr(id, NULL, at(SERVER, PORT), TIMEOUT));
	/* An edge comes with each event. */
	IS(epoll_wait(set, &ready, 1, 1000 * PATIENCE), 1);
	OK(rdma_get_cm_event(s->channel, &got));
	IS(got->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	NO(rdma_get_cm_event(s->channel, &got), EAGAIN);
	/* The identifier ends after its events are acknowledged. */
	w.id = id;
	CHECK(!pthread_create(&thread, NULL, destroys, &w));
	usleep(50000);
	CHECK(!__atomic_load_n(&w.done, __ATOMIC_ACQUIRE));
	OK(rdma_ack_cm_event(got));
	CHECK(!pthread_join(thread, NULL));
	NO(rdma_ack_cm_event(NULL), EINVAL);
	/* Events that were not taken go with an identifier to another channel, and end with it. */
	CHECK(second = rdma_create_event_channel());
	id = make(s, RDMA_PS_TCP, NULL);
	OK(rdma_resolve_addr(id, NULL, at(SERVER, PORT), TIMEOUT));
	IS(epoll_wait(set, &ready, 1, 1000 * PATIENCE), 1);
	OK(rdma_migrate_id(id, second));
	CHECK(id->channel == second && is_empty(s->channel));
	passes(second, RDMA_CM_EVENT_ADDR_RESOLVED);
	OK(rdma_resolve_route(id, TIMEOUT));
	CHECK(!is_empty(second));
	OK(rdma_destroy_id(id));
	CHECK(is_empty(second));
	/* Without a channel it waits by itself. */
	id = make(s, RDMA_PS_TCP, NULL);
	OK(rdma_migrate_id(id, NULL));
	CHECK(id->channel && id->channel != s->channel);
	NO(rdma_migrate_id(id, NULL), EINVAL);
	OK(rdma_resolve_addr(id, NULL, at(SERVER, PORT), TIMEOUT));
	IS(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	OK(rdma_migrate_id(id, second));
	CHECK(id->channel == second && !id->event);
	OK(rdma_resolve_route(id, TIMEOUT));
	passes(second, RDMA_CM_EVENT_ROUTE_RESOLVED);
	OK(rdma_destroy_id(id));
	/* An address that no station has. */
	id = make(s, RDMA_PS_TCP, NULL);
	OK(rdma_resolve_addr(id, NULL, at("10.7.0.77", PORT), 300));
	CHECK(is_at(&id->route.addr.dst, "10.7.0.77"));
	got = event(s->channel, RDMA_CM_EVENT_ADDR_ERROR);
	IS(got->status, -ETIMEDOUT);
	CHECK(is_at(&id->route.addr.dst, "10.7.0.77"));
	IS(rdma_get_dst_port(id), htons(PORT));
	OK(rdma_ack_cm_event(got));
	OK(rdma_destroy_id(id));
	/* One whose search is not over. */
	id = make(s, RDMA_PS_TCP, NULL);
	OK(rdma_resolve_addr(id, NULL, at("10.7.0.78", PORT), TIMEOUT));
	OK(rdma_destroy_id(id));
	CHECK(is_empty(s->channel));
	rdma_destroy_event_channel(second);
	close(set);
	meet(s);
}

/* Calls at the wrong time, and with wrong arguments. */
static void errors(struct side *s)
{
	rdma_cm_id *id, *other;
	ibv_qp_init_attr attr = queues(IBV_QPT_RC);
	rdma_conn_param param = saying("hello");
	struct sockaddr_storage odd = { .ss_family = AF_UNIX };
	ibv_qp_attr change;
	ibv_ece ece = { 0 };
	int mask, count = -1;
	uint8_t byte = 14;
	int word = 1;
	char much[256];

	if (s->server) {
		rdma_cm_id *listen = listener(s, RDMA_PS_TCP, SERVER, PORT);

		NO(rdma_listen(listen, 1) ? -1 : rdma_bind_addr(listen, at(SERVER, PORT + 1)), EINVAL);
		NO(rdma_connect(listen, &param), EINVAL);
		meet(s);
		meet(s);
		OK(rdma_destroy_id(listen));
		return;
	}
	meet(s);
	NO(rdma_create_id(s->channel, &id, NULL, 0x999), EINVAL);
	id = make(s, RDMA_PS_TCP, NULL);
	/* Without an address. */
	NO(rdma_connect(id, &param), EINVAL);
	NO(rdma_resolve_route(id, 1), EINVAL);
	NO(rdma_accept(id, &param), EINVAL);
	NO(rdma_reject(id, NULL, 0), EINVAL);
	NO(rdma_disconnect(id), EINVAL);
	NO(rdma_establish(id), EINVAL);
	NO(rdma_create_qp(id, NULL, &attr), EINVAL);
	NO(rdma_create_srq(id, NULL, &(ibv_srq_init_attr){ .attr = { .max_wr = 8, .max_sge = 1 } }), EINVAL);
	NO(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	NO(rdma_get_request(id, &other), EINVAL);
	change.qp_state = IBV_QPS_INIT;
	NO(rdma_init_qp_attr(id, &change, &mask), EINVAL);
	IS(rdma_get_src_port(id), 0);
	/* Addresses. */
	NO(rdma_bind_addr(id, (struct sockaddr *)&odd), EINVAL);
	NO(rdma_bind_addr(id, NULL), EINVAL);
	NO(rdma_bind_addr(id, at("10.9.9.9", 0)), EADDRNOTAVAIL);
	NO(rdma_resolve_addr(id, at("10.9.9.9", 0), at(SERVER, PORT), TIMEOUT), EADDRNOTAVAIL);
	NO(rdma_resolve_addr(id, NULL, at("224.0.0.1", PORT), TIMEOUT), EOPNOTSUPP);
	NO(rdma_resolve_addr(id, NULL, NULL, TIMEOUT), EINVAL);
	/* Options. */
	OK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1));
	NO(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &word, 4), EINVAL);
	OK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &word, 4));
	OK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &word, 4));
	OK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1));
	byte = 32;
	NO(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1), EINVAL);
	NO(rdma_set_option(id, RDMA_OPTION_ID, 99, &byte, 1), ENOSYS);
	NO(rdma_set_option(id, 99, 0, &byte, 1), ENOSYS);
	/* Ports. */
	OK(rdma_bind_addr(id, at(CLIENT, PORT)));
	CHECK(id->verbs && is_at(&id->route.addr.src, CLIENT));
	NO(rdma_bind_addr(id, at(CLIENT, PORT)), EINVAL);
	other = make(s, RDMA_PS_TCP, NULL);
	NO(rdma_bind_addr(other, at(CLIENT, PORT)), EADDRINUSE);
	/* Both say that they share it, until one listens. */
	OK(rdma_set_option(other, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &word, 4));
	OK(rdma_bind_addr(other, at(CLIENT, PORT)));
	NO(rdma_listen(other, 1), EADDRINUSE);
	OK(rdma_destroy_id(other));
	/* With an address, without a route. */
	NO(rdma_connect(id, &param), EINVAL);
	OK(rdma_resolve_addr(id, NULL, at(SERVER, PORT), TIMEOUT));
	passes(s->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	NO(rdma_resolve_addr(id, NULL, at(SERVER, PORT), TIMEOUT), EINVAL);
	NO(rdma_connect(id, &param), EINVAL);
	OK(rdma_resolve_route(id, TIMEOUT));
	passes(s->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	IS(id->route.path_rec->traffic_class, 14);
	NO(rdma_resolve_route(id, TIMEOUT), EINVAL);
	/* Queue pairs. */
	NO(rdma_connect(id, NULL), EINVAL);
	attr.qp_type = IBV_QPT_UD;
	NO(rdma_create_qp(id, NULL, &attr), EINVAL);
	attr.qp_type = IBV_QPT_RC;
	attr.cap.max_send_sge = 1000;
	NO(rdma_create_qp(id, NULL, &attr), EINVAL);
	CHECK(!id->qp && !id->send_cq && !id->recv_cq_channel);
	/* What was made for it is gone. */
	CHECK(!attr.send_cq && !attr.recv_cq);
	ibv_qp_init_attr_ex ex = { .cap = attr.cap, .qp_type = IBV_QPT_RC };

	NO(rdma_create_qp_ex(id, &ex), EINVAL);
	CHECK(!ex.send_cq && !ex.recv_cq);
	attr = queues(IBV_QPT_RC);
	OK(rdma_create_qp(id, NULL, &attr));
	NO(rdma_create_qp(id, NULL, &attr), EINVAL);
	NO(rdma_establish(id), EINVAL);
	change.qp_state = IBV_QPS_INIT;
	OK(rdma_init_qp_attr(id, &change, &mask));
	IS(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	change.qp_state = IBV_QPS_RTR;
	NO(rdma_init_qp_attr(id, &change, &mask), EINVAL);
	change.qp_state = IBV_QPS_ERR;
	NO(rdma_init_qp_attr(id, &change, &mask), EINVAL);
	/* Parameters. */
	param = (rdma_conn_param){ .private_data = much, .private_data_len = 57 };
	NO(rdma_connect(id, &param), EINVAL);
	param = (rdma_conn_param){ .responder_resources = 254 };
	NO(rdma_connect(id, &param), EINVAL);
	param = (rdma_conn_param){ .initiator_depth = 254 };
	NO(rdma_connect(id, &param), EINVAL);
	/* What is not there. */
	NO(rdma_set_local_ece(id, &ece), EINVAL);
	ece.vendor_id = 1;
	OK(rdma_set_local_ece(id, &ece));
	OK(rdma_get_remote_ece(id, &ece));
	IS(ece.vendor_id, 0);
	NO(rdma_join_multicast(id, at("224.0.0.1", 0), NULL), EOPNOTSUPP);
	NO(rsocket(AF_INET, SOCK_STREAM, 0), EOPNOTSUPP);
	end(id);
	/* The connection manager has the queue pair of raw packets. */
	ibv_context **list = rdma_get_devices(&count);

	CHECK(list && count == 1 && list[0] && !list[1]);
	ibv_pd *pd = ibv_alloc_pd(list[0]);
	ibv_cq *cq = ibv_create_cq(list[0], 4, NULL, NULL, 0);

	CHECK(pd && cq);
	attr = queues(IBV_QPT_RAW_PACKET);
	attr.send_cq = attr.recv_cq = cq;
	errno = 0;
	CHECK(ibv_create_qp(pd, &attr) == NULL && errno == EBUSY);
	OK(ibv_destroy_cq(cq));
	OK(ibv_dealloc_pd(pd));
	rdma_free_devices(list);
	/* Two listeners, of which one is that of the family. */
	other = listener(s, RDMA_PS_TCP, CLIENT, PORT);
	id = make(s, RDMA_PS_TCP, NULL);
	NO(rdma_bind_addr(id, at("0.0.0.0", PORT)), EADDRINUSE);
	OK(rdma_destroy_id(id));
	OK(rdma_destroy_id(other));
	/* A listener without an address gets a port. */
	id = make(s, RDMA_PS_TCP, NULL);
	OK(rdma_listen(id, 0));
	CHECK(rdma_get_src_port(id) && !id->verbs);
	OK(rdma_destroy_id(id));
	meet(s);
}

/* Ends with requests that nobody has taken. */
static void pending(struct side *s)
{
	rdma_cm_event *got;
	rdma_cm_id *id[3];

	if (s->server) {
		rdma_cm_id *listen = listener(s, RDMA_PS_TCP, SERVER, PORT);
		struct pollfd look = { .fd = s->channel->fd, .events = POLLIN };

		meet(s);
		CHECK(poll(&look, 1, 1000 * PATIENCE) == 1);
		meet(s);
		/* All of them are there, or come while it ends. */
		OK(rdma_destroy_id(listen));
		meet(s);
		CHECK(is_empty(s->channel));
		meet(s);
		/* The client ends with a listener that has a request, and with a connection. */
		rdma_conn_param param = saying("hello");

		for (int i = 0; i < 2; i++) {
			param.qp_num = 200 + i;
			id[i] = make(s, RDMA_PS_TCP, NULL);
			OK(rdma_resolve_addr(id[i], NULL, at(CLIENT, PORT), TIMEOUT));
			passes(s->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
			OK(rdma_resolve_route(id[i], TIMEOUT));
			passes(s->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
			OK(rdma_connect(id[i], &param));
			if (i == 0) {
				got = event(s->channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
				OK(rdma_ack_cm_event(got));
				OK(rdma_establish(id[0]));
			}
		}
		for (int i = 0; i < 2; i++) {
			OK(rdma_get_cm_event(s->channel, &got));
			if (got->id == id[0])
				IS(got->event, RDMA_CM_EVENT_DISCONNECTED);
			else
				IS(got->event, RDMA_CM_EVENT_REJECTED);
			OK(rdma_ack_cm_event(got));
		}
		OK(rdma_destroy_id(id[0]));
		OK(rdma_destroy_id(id[1]));
		return;
	}
	meet(s);
	for (int i = 0; i < 3; i++) {
		rdma_conn_param param = saying("hello");

		param.qp_num = 100 + i;
		id[i] = resolved(s, RDMA_PS_TCP, SERVER, PORT);
		OK(rdma_connect(id[i], &param));
	}
	meet(s);
	for (int i = 0; i < 3; i++) {
		got = event(s->channel, RDMA_CM_EVENT_REJECTED);
		CHECK(got->status == 28 || got->status == 8);
		OK(rdma_ack_cm_event(got));
	}
	for (int i = 0; i < 3; i++)
		OK(rdma_destroy_id(id[i]));
	meet(s);
	struct pollfd look = { .fd = s->channel->fd, .events = POLLIN };
	rdma_conn_param param = { .qp_num = 300 };

	listener(s, RDMA_PS_TCP, CLIENT, PORT);
	meet(s);
	got = event(s->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	OK(rdma_accept(got->id, &param));
	OK(rdma_ack_cm_event(got));
	passes(s->channel, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(poll(&look, 1, 1000 * PATIENCE) == 1);
}

/* Queue pairs of the program, which it takes through their states itself. */
static void attributes(struct side *s)
{
	static const int states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	rdma_conn_param param = saying(s->server ? "welcome" : "hello");
	rdma_cm_id *listen = NULL, *id;
	rdma_cm_event *got;
	ibv_cq *cq;
	ibv_qp *qp;
	ibv_wc wc;
	ibv_qp_init_attr init = queues(IBV_QPT_RC);
	int mask;

	if (s->server) {
		listen = listener(s, RDMA_PS_TCP, "0.0.0.0", PORT);
		meet(s);
		got = event(s->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		id = got->id;
	} else {
		meet(s);
		id = resolved(s, RDMA_PS_TCP, SERVER, PORT);
		got = NULL;
	}
	CHECK(cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0));
	init.send_cq = init.recv_cq = cq;
	CHECK(qp = ibv_create_qp(id->pd, &init));
	param.qp_num = qp->qp_num;
	if (!s->server) {
		OK(rdma_connect(id, &param));
		got = event(s->channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
		begins(got, "welcome");
	}
	CHECK(got->param.conn.qp_num);
	for (int i = 0; i < 3; i++) {
		ibv_qp_attr attr = { .qp_state = states[i] };

		OK(rdma_init_qp_attr(id, &attr, &mask));
		/* Rights are those of INIT. */
		IS(!!(mask & IBV_QP_ACCESS_FLAGS), i == 0);
		OK(ibv_modify_qp(qp, &attr, mask));
	}
	OK(rdma_ack_cm_event(got));
	if (s->server) {
		OK(rdma_accept(id, &param));
		/* What comes over the queue pair says the same. */
		OK(rdma_notify(id, IBV_EVENT_COMM_EST));
		passes(s->channel, RDMA_CM_EVENT_ESTABLISHED);
		NO(rdma_notify(id, IBV_EVENT_COMM_EST), EISCONN);
		NO(rdma_notify(id, IBV_EVENT_QP_FATAL), EINVAL);
	} else {
		OK(rdma_establish(id));
		NO(rdma_establish(id), EINVAL);
	}
	meet(s);
	/* A message without bytes. */
	ibv_recv_wr take = { 0 }, *bad_take;
	ibv_send_wr give = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

	OK(post_recv(qp, &take, &bad_take));
	meet(s);
	OK(post_send(qp, &give, &bad));
	for (int have = 0; have < 2;) {
		int more = ops(cq).poll_cq(cq, 1, &wc);

		CHECK(more >= 0 && (!more || wc.status == IBV_WC_SUCCESS));
		have += more;
	}
	meet(s);
	OK(rdma_disconnect(id));
	passes(s->channel, RDMA_CM_EVENT_DISCONNECTED);
	meet(s);
	OK(ibv_destroy_qp(qp));
	OK(ibv_destroy_cq(cq));
	OK(rdma_destroy_id(id));
	if (s->server)
		OK(rdma_destroy_id(listen));
}

/* A child has no part in its parent's identifiers. */
static void forks(struct side *s)
{
	rdma_cm_id *listen, *id = connected(s, &listen), *other;
	rdma_conn_param param = saying("hello");
	rdma_cm_event *got;
	int status = -1;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		side_name = "child";
		NO(rdma_disconnect(id), EIO);
		NO(rdma_connect(id, &param), EIO);
		NO(rdma_get_cm_event(s->channel, &got), EIO);
		NO(rdma_create_id(s->channel, &other, NULL, RDMA_PS_TCP), EIO);
		OK(rdma_destroy_id(id));
		rdma_destroy_event_channel(s->channel);
		/* Its own begin anew; the card is the parent's. */
		CHECK(s->channel = rdma_create_event_channel());
		other = make(s, RDMA_PS_TCP, NULL);
		NO(rdma_bind_addr(other, at("0.0.0.0", 0)), EBUSY);
		OK(rdma_destroy_id(other));
		rdma_destroy_event_channel(s->channel);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	exchange(s, id);
	meet(s);
	if (!s->server)
		OK(rdma_disconnect(id));
	passes(s->channel, RDMA_CM_EVENT_DISCONNECTED);
	end(id);
	if (s->server)
		OK(rdma_destroy_id(listen));
}

/* The client is killed. */
static void killed(struct side *s)
{
	rdma_cm_id *listen, *id = connected(s, &listen);
	ibv_wc wc;
	ibv_mr *mr;

	s->signal = SIGKILL;
	meet(s);
	if (!s->server)
		kill(getpid(), SIGKILL);
	mr = memory(id);
	receive(id, mr, 0, 64);
	post(id, mr, IBV_WR_SEND, 0, 64, 0, 0);
	wc = completion(id->send_cq, id->send_cq_channel);
	CHECK(wc.status == IBV_WC_RETRY_EXC_ERR || wc.status == IBV_WC_REM_OP_ERR);
	wc = completion(id->recv_cq, id->recv_cq_channel);
	IS(wc.status, IBV_WC_WR_FLUSH_ERR);
	OK(rdma_disconnect(id));
	/* Nobody answers, and nothing waits for that. */
	forget(mr);
	end(id);
	OK(rdma_destroy_id(listen));
}

struct blocked {
	rdma_cm_id *listen;
	int errno_;
};

static void *waits(void *argument)
{
	struct blocked *b = argument;
	rdma_cm_id *id;

	CHECK(rdma_get_request(b->listen, &id) == -1);
	b->errno_ = errno;
	return NULL;
}

/* The server of the cards is killed. */
static void gone(struct side *s)
{
	rdma_cm_id *listen, *id = connected(s, &listen);
	struct blocked b = { 0 };
	rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE }, *info;
	rdma_cm_event *got;
	pthread_t thread;
	int removed = 0;

	OK(rdma_getaddrinfo("0.0.0.0", "20079", &hints, &info));
	OK(rdma_create_ep(&b.listen, info, NULL, NULL));
	rdma_freeaddrinfo(info);
	OK(rdma_listen(b.listen, 1));
	CHECK(!pthread_create(&thread, NULL, waits, &b));
	meet(s);
	if (s->server) {
		/* Whoever runs this ends the cards' server now. */
		printf("ready\n");
		fflush(stdout);
	}
	while (removed < (s->server ? 2 : 1)) {
		got = event(s->channel, RDMA_CM_EVENT_DEVICE_REMOVAL);
		IS(got->status, -ENODEV);
		CHECK(got->id == id || got->id == listen);
		OK(rdma_ack_cm_event(got));
		removed++;
	}
	CHECK(!pthread_join(thread, NULL));
	IS(b.errno_, ENODEV);
	IS(rdma_disconnect(id), -1);
	CHECK(errno == ENODEV || errno == EIO);
	NO(rdma_resolve_route(id, TIMEOUT), ENODEV);
	rdma_destroy_ep(b.listen);
	end(id);
	if (s->server)
		OK(rdma_destroy_id(listen));
	/* There is no other card. */
	id = make(s, RDMA_PS_TCP, NULL);
	NO(rdma_resolve_addr(id, NULL, at(SERVER, PORT), TIMEOUT), ENODEV);
	OK(rdma_destroy_id(id));
}

/* There are no cards at all. */
static void alone(struct side *s)
{
	rdma_cm_event *got;
	rdma_cm_id *id;
	int count = -1;

	setenv("FERROWIRE_DEVICE", "sim:/nowhere/card.sock", 1);
	id = make(s, RDMA_PS_TCP, NULL);
	NO(rdma_resolve_addr(id, NULL, at(SERVER, PORT), TIMEOUT), ENODEV);
	NO(rdma_bind_addr(id, at("0.0.0.0", PORT)), ENODEV);
	NO(rdma_listen(id, 1), ENODEV);
	CHECK(rdma_get_devices(&count) == NULL && count == 0 && errno == ENODEV);
	CHECK(!fcntl(s->channel->fd, F_SETFL, O_NONBLOCK));
	NO(rdma_get_cm_event(s->channel, &got), EAGAIN);
	OK(rdma_destroy_id(id));
}

/* Receives of a queue that is shared. */
static void srq(struct side *s)
{
	rdma_cm_id *listen = NULL, *id;
	ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	ibv_qp_init_attr attr = queues(IBV_QPT_RC);
	rdma_conn_param param = saying(s->server ? "welcome" : "hello");
	rdma_cm_event *got = NULL;

	if (s->server) {
		listen = listener(s, RDMA_PS_TCP, SERVER, PORT);
		meet(s);
		got = event(s->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		id = got->id;
		OK(rdma_create_srq(id, NULL, &init));
		CHECK(id->srq);
		NO(rdma_create_srq(id, NULL, &init), EINVAL);
		OK(rdma_create_qp(id, NULL, &attr));
		CHECK(id->qp->srq == id->srq && id->recv_cq->cqe >= 16);
		ibv_mr *mr = memory(id);
		ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = 64, .lkey = mr->lkey };
		ibv_recv_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 }, *bad;

		OK(id->srq->context->ops.post_srq_recv(id->srq, &wr, &bad));
		OK(rdma_ack_cm_event(got));
		OK(rdma_accept(id, &param));
		passes(s->channel, RDMA_CM_EVENT_ESTABLISHED);
		ibv_wc wc = received(id);

		IS(wc.wr_id, 5);
		same(mr->addr, 64, 9);
		meet(s);
		forget(mr);
	} else {
		meet(s);
		id = resolved(s, RDMA_PS_TCP, SERVER, PORT);
		ibv_qp_init_attr_ex ex = { .cap = attr.cap, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };

		OK(rdma_create_qp_ex(id, &ex));
		CHECK(ex.pd == id->pd && ex.send_cq == id->send_cq);
		OK(rdma_connect(id, &param));
		got = event(s->channel, RDMA_CM_EVENT_ESTABLISHED);
		IS(got->param.conn.srq, 1);
		OK(rdma_ack_cm_event(got));
		ibv_mr *mr = memory(id);

		fill(mr->addr, 64, 9);
		post(id, mr, IBV_WR_SEND, 0, 64, 0, 0);
		sent(id);
		meet(s);
		forget(mr);
		OK(rdma_disconnect(id));
	}
	passes(s->channel, RDMA_CM_EVENT_DISCONNECTED);
	meet(s);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	CHECK(!id->srq);
	OK(rdma_destroy_id(id));
	if (s->server)
		OK(rdma_destroy_id(listen));
}

/* Both ends of a connection in one process, on one card. */
static void loop(struct side *s, rdma_port_space space)
{
	rdma_cm_id *listen, *one, *other = NULL;
	rdma_conn_param param = saying("hello");
	ibv_qp_init_attr attr = queues(IBV_QPT_RC);
	rdma_cm_event *got;
	ibv_mr *mr[2];
	int established = 0, disconnected = 0;

	listen = listener(s, space, "0.0.0.0", PORT);
	one = make(s, space, NULL);
	OK(rdma_resolve_addr(one, NULL, at("127.0.0.1", PORT), TIMEOUT));
	passes(s->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(is_at(&one->route.addr.src, CLIENT) && is_at(&one->route.addr.dst, CLIENT));
	OK(rdma_resolve_route(one, TIMEOUT));
	passes(s->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	OK(rdma_create_qp(one, NULL, &attr));
	OK(rdma_connect(one, &param));
	got = event(s->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	other = got->id;
	attr = queues(IBV_QPT_RC);
	OK(rdma_create_qp(other, NULL, &attr));
	OK(rdma_accept(other, &param));
	OK(rdma_ack_cm_event(got));
	while (established < 2) {
		got = event(s->channel, RDMA_CM_EVENT_ESTABLISHED);
		CHECK(got->id == one || got->id == other);
		OK(rdma_ack_cm_event(got));
		established++;
	}
	mr[0] = memory(one);
	mr[1] = memory(other);
	receive(other, mr[1], 0, 1024);
	fill(mr[0]->addr, 1024, 1);
	post(one, mr[0], IBV_WR_SEND, 0, 1024, 0, 0);
	sent(one);
	received(other);
	same(mr[1]->addr, 1024, 1);
	OK(rdma_disconnect(one));
	while (disconnected < 2) {
		got = event(s->channel, RDMA_CM_EVENT_DISCONNECTED);
		CHECK(got->id == one || got->id == other);
		OK(rdma_ack_cm_event(got));
		disconnected++;
	}
	forget(mr[0]);
	forget(mr[1]);
	end(one);
	end(other);
	OK(rdma_destroy_id(listen));
}

static void loopback(struct side *s)
{
	if (!s->server) {
		loop(s, RDMA_PS_TCP);
		loop(s, RDMA_PS_IB);
	}
	meet(s);
}

/* Threads connect at the same time, each with identifiers of its own; the server's accept in any order. */
#define THREADS 4
#define ROUNDS 10

static void *asks(void *argument)
{
	rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *info;

	(void)argument;
	OK(rdma_getaddrinfo(SERVER, "7174", &hints, &info));
	for (int i = 0; i < ROUNDS; i++) {
		ibv_qp_init_attr attr = queues(IBV_QPT_RC);
		rdma_conn_param param = saying("hello");
		rdma_cm_id *id;

		OK(rdma_create_ep(&id, info, NULL, &attr));
		OK(rdma_connect(id, &param));
		ibv_mr *mr = memory(id);

		receive(id, mr, 512, 512);
		fill(mr->addr, 512, i);
		post(id, mr, IBV_WR_SEND, 0, 512, 0, 0);
		sent(id);
		received(id);
		same((unsigned char *)mr->addr + 512, 512, i);
		OK(rdma_disconnect(id));
		forget(mr);
		rdma_destroy_ep(id);
	}
	rdma_freeaddrinfo(info);
	return NULL;
}

static void *answers(void *argument)
{
	rdma_cm_id *id = argument;
	ibv_mr *mr = memory(id);
	rdma_conn_param param = saying("welcome");

	receive(id, mr, 0, 512);
	OK(rdma_accept(id, &param));
	received(id);
	post(id, mr, IBV_WR_SEND, 0, 512, 0, 0);
	sent(id);
	/* The client ends it. */
	rdma_cm_event *got = event(id->channel, RDMA_CM_EVENT_DISCONNECTED);

	OK(rdma_ack_cm_event(got));
	OK(rdma_disconnect(id));
	forget(mr);
	rdma_destroy_ep(id);
	return NULL;
}

static void threads(struct side *s)
{
	pthread_t all[THREADS * ROUNDS];
	int count = s->server ? THREADS * ROUNDS : THREADS;
	rdma_cm_id *listen = NULL, *id;

	if (s->server) {
		rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE }, *info;
		ibv_qp_init_attr attr = queues(IBV_QPT_RC);

		OK(rdma_getaddrinfo(NULL, "7174", &hints, &info));
		OK(rdma_create_ep(&listen, info, NULL, &attr));
		rdma_freeaddrinfo(info);
		OK(rdma_listen(listen, 0));
	}
	meet(s);
	for (int i = 0; i < count; i++) {
		if (s->server) {
			OK(rdma_get_request(listen, &id));
			CHECK(!pthread_create(&all[i], NULL, answers, id));
		} else {
			CHECK(!pthread_create(&all[i], NULL, asks, NULL));
		}
	}
	for (int i = 0; i < count; i++)
		CHECK(!pthread_join(all[i], NULL));
	meet(s);
	if (s->server)
		rdma_destroy_ep(listen);
}

/* Threads of the server wait for requests to one listener, whose domain is the program's. */
static void *takes(void *argument)
{
	rdma_cm_id *listen = argument, *id;

	for (int i = 0; i < ROUNDS; i++) {
		OK(rdma_get_request(listen, &id));
		CHECK(id->qp && id->pd == listen->pd && id->event && id->event->id == id);
		answers(id);
	}
	return NULL;
}

static void takers(struct side *s)
{
	pthread_t all[THREADS];
	rdma_cm_id *listen = NULL;
	ibv_context **list = NULL;
	ibv_pd *pd = NULL;

	if (s->server) {
		rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE }, *info;
		ibv_qp_init_attr attr = queues(IBV_QPT_RC);

		CHECK(list = rdma_get_devices(NULL));
		CHECK(pd = ibv_alloc_pd(list[0]));
		OK(rdma_getaddrinfo(NULL, "7174", &hints, &info));
		OK(rdma_create_ep(&listen, info, pd, &attr));
		CHECK(listen->pd == pd);
		rdma_freeaddrinfo(info);
		OK(rdma_listen(listen, 0));
	}
	meet(s);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&all[i], NULL, s->server ? takes : asks, listen));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(all[i], NULL));
	meet(s);
	if (s->server) {
		CHECK(!listen->event);
		rdma_destroy_ep(listen);
		OK(ibv_dealloc_pd(pd));
		rdma_free_devices(list);
	}
}

/* A listener moves while a request waits: events of the request come where it went. */
static void moves(struct side *s)
{
	rdma_event_channel *second = NULL;
	rdma_cm_id *listen = NULL, *id;

	if (s->server) {
		rdma_conn_param param = saying("welcome");
		struct pollfd look = { .fd = s->channel->fd, .events = POLLIN };
		rdma_event_channel *first = s->channel;

		listen = listener(s, RDMA_PS_TCP, SERVER, PORT);
		CHECK(second = rdma_create_event_channel());
		meet(s);
		CHECK(poll(&look, 1, 1000 * PATIENCE) == 1);
		OK(rdma_migrate_id(listen, second));
		s->channel = second;
		id = request(s, listen, IBV_QPT_RC);
		OK(rdma_accept(id, &param));
		passes(second, RDMA_CM_EVENT_ESTABLISHED);
		CHECK(is_empty(first));
		rdma_destroy_event_channel(first);
	} else {
		rdma_conn_param param = saying("hello");
		ibv_qp_init_attr attr = queues(IBV_QPT_RC);

		meet(s);
		id = resolved(s, RDMA_PS_TCP, SERVER, PORT);
		OK(rdma_create_qp(id, NULL, &attr));
		OK(rdma_connect(id, &param));
		passes(s->channel, RDMA_CM_EVENT_ESTABLISHED);
	}
	meet(s);
	if (!s->server)
		OK(rdma_disconnect(id));
	passes(s->channel, RDMA_CM_EVENT_DISCONNECTED);
	end(id);
	if (s->server)
		OK(rdma_destroy_id(listen));
}

/* A datagram service of synchronous identifiers. Its answer ends the event of the request, so the listener may go first. */
static void services(struct side *s)
{
	rdma_conn_param param = saying(s->server ? "welcome" : "hello");
	rdma_cm_id *id = NULL;

	if (s->server) {
		rdma_addrinfo hints = { .ai_port_space = RDMA_PS_UDP, .ai_flags = RAI_PASSIVE }, *info;
		ibv_qp_init_attr attr = queues(IBV_QPT_UD);
		rdma_cm_id *listen;

		OK(rdma_getaddrinfo(SERVER, "7174", &hints, &info));
		OK(rdma_create_ep(&listen, info, NULL, &attr));
		rdma_freeaddrinfo(info);
		OK(rdma_listen(listen, 1));
		meet(s);
		OK(rdma_get_request(listen, &id));
		IS(id->qp->state, IBV_QPS_RTS);
		OK(rdma_accept(id, &param));
		CHECK(!id->event);
		rdma_destroy_ep(listen);
	} else {
		meet(s);
		id = resolved(s, RDMA_PS_UDP, SERVER, PORT);
		OK(rdma_connect(id, &param));
		rdma_cm_event *got = event(s->channel, RDMA_CM_EVENT_ESTABLISHED);

		CHECK(got->param.ud.qp_num);
		OK(rdma_ack_cm_event(got));
	}
	meet(s);
	rdma_destroy_ep(id);
}

/* A wait goes on after a signal whose handler says so. */
static int signals;

static void notes(int number)
{
	(void)number;
	__atomic_add_fetch(&signals, 1, __ATOMIC_RELEASE);
}

struct take {
	rdma_event_channel *channel;
	rdma_cm_event *got;
	int result, errno_, done;
};

static void *waits_for_one(void *argument)
{
	struct take *t = argument;

	t->result = rdma_get_cm_event(t->channel, &t->got);
	t->errno_ = errno;
	__atomic_store_n(&t->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void interrupted(struct side *s)
{
	if (s->server) {
		rdma_cm_id *listen = listener(s, RDMA_PS_TCP, SERVER, PORT);

		meet(s);
		meet(s);
		OK(rdma_destroy_id(listen));
		return;
	}
	meet(s);
	rdma_cm_id *id = make(s, RDMA_PS_TCP, NULL);

	for (int restart = 1; restart >= 0; restart--) {
		struct sigaction action = { .sa_handler = notes, .sa_flags = restart ? SA_RESTART : 0 };
		struct take t = { .channel = s->channel };
		pthread_t thread;

		signals = 0;
		CHECK(!sigaction(SIGUSR1, &action, NULL));
		CHECK(!pthread_create(&thread, NULL, waits_for_one, &t));
		for (int i = 0; i < 20 && !__atomic_load_n(&t.done, __ATOMIC_ACQUIRE); i++) {
			usleep(10000);
			/* The thread may not have begun to wait. */
			CHECK(!pthread_kill(thread, SIGUSR1));
		}
		if (restart) {
			CHECK(__atomic_load_n(&signals, __ATOMIC_ACQUIRE) > 0);
			CHECK(!__atomic_load_n(&t.done, __ATOMIC_ACQUIRE));
			OK(rdma_resolve_addr(id, NULL, at(SERVER, PORT), TIMEOUT));
			CHECK(!pthread_join(thread, NULL));
			OK(t.result);
			IS(t.got->event, RDMA_CM_EVENT_ADDR_RESOLVED);
			OK(rdma_ack_cm_event(t.got));
		} else {
			CHECK(!pthread_join(thread, NULL));
			IS(t.result, -1);
			IS(t.errno_, EINTR);
		}
	}
	OK(rdma_destroy_id(id));
	meet(s);
}

/* Ends of what is not connected yet. */
static void early(struct side *s)
{
	rdma_conn_param param = saying(s->server ? "welcome" : "hello");
	ibv_qp_init_attr attr = queues(IBV_QPT_RC);
	rdma_event_channel *first = s->channel, *second;
	rdma_cm_event *got[2];
	rdma_cm_id *id, *next;

	if (s->server) {
		rdma_cm_id *listen = listener(s, RDMA_PS_TCP, SERVER, PORT);

		meet(s);
		/* The asker gives the first request up, as its second one says, which comes after that. */
		got[0] = event(s->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		meet(s);
		got[1] = event(s->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		/* Nothing says so but the answer: another thread may not know the request. */
		CHECK(is_empty(s->channel));
		param.qp_num = 77;
		NO(rdma_accept(got[0]->id, &param), ECONNRESET);
		id = got[0]->id;
		OK(rdma_ack_cm_event(got[0]));
		OK(rdma_destroy_id(id));
		/* A request that disconnects: the queue pair ends, and the asker hears nothing of it. */
		id = got[1]->id;
		OK(rdma_create_qp(id, NULL, &attr));
		OK(rdma_disconnect(id));
		IS(id->qp->state, IBV_QPS_ERR);
		OK(rdma_ack_cm_event(got[1]));
		end(id);
		/* One that is accepted and given up. */
		meet(s);
		got[0] = event(s->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		id = got[0]->id;
		OK(rdma_ack_cm_event(got[0]));
		OK(rdma_accept(id, &param));
		OK(rdma_destroy_id(id));
		got[1] = event(s->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		id = got[1]->id;
		OK(rdma_reject(id, NULL, 0));
		OK(rdma_ack_cm_event(got[1]));
		OK(rdma_destroy_id(id));
		meet(s);
		OK(rdma_destroy_id(listen));
		return;
	}
	meet(s);
	id = resolved(s, RDMA_PS_TCP, SERVER, PORT);
	next = resolved(s, RDMA_PS_TCP, SERVER, PORT);
	param.qp_num = 78;
	OK(rdma_connect(id, &param));
	meet(s);
	OK(rdma_destroy_id(id));
	OK(rdma_create_qp(next, NULL, &attr));
	OK(rdma_connect(next, &param));
	OK(rdma_disconnect(next));
	IS(next->qp->state, IBV_QPS_ERR);
	got[0] = event(s->channel, RDMA_CM_EVENT_REJECTED);
	IS(got[0]->status, 28);
	OK(rdma_ack_cm_event(got[0]));
	end(next);
	/* Before it connects only its queue pair ends. */
	attr = queues(IBV_QPT_RC);
	id = resolved(s, RDMA_PS_TCP, SERVER, PORT);
	OK(rdma_create_qp(id, NULL, &attr));
	NO(rdma_disconnect(id), EINVAL);
	IS(id->qp->state, IBV_QPS_ERR);
	end(id);
	/* A connection that has ended before its queue pair comes up is one event. */
	attr = queues(IBV_QPT_RC);
	CHECK(second = rdma_create_event_channel());
	id = resolved(s, RDMA_PS_TCP, SERVER, PORT);
	OK(rdma_create_qp(id, NULL, &attr));
	s->channel = second;
	next = resolved(s, RDMA_PS_TCP, SERVER, PORT);
	meet(s);
	OK(rdma_connect(id, &param));
	struct pollfd look = { .fd = first->fd, .events = POLLIN };

	CHECK(poll(&look, 1, 1000 * PATIENCE) == 1);
	OK(rdma_connect(next, &param));
	got[0] = event(second, RDMA_CM_EVENT_REJECTED);
	OK(rdma_ack_cm_event(got[0]));
	OK(rdma_destroy_id(next));
	got[0] = event(first, RDMA_CM_EVENT_CONNECT_ERROR);
	CHECK(got[0]->id == id);
	IS(got[0]->status, -ECONNRESET);
	OK(rdma_ack_cm_event(got[0]));
	IS(id->qp->state, IBV_QPS_ERR);
	CHECK(!fcntl(first->fd, F_SETFL, O_NONBLOCK));
	NO(rdma_get_cm_event(first, &got[0]), EAGAIN);
	end(id);
	rdma_destroy_event_channel(second);
	meet(s);
}

/* The card has no domain left for identifiers. */
static void domains(struct side *s)
{
	rdma_cm_id *id;
	rdma_cm_event *got;
	ibv_context **list;
	ibv_pd **all = NULL;
	int count = 0;

	if (s->server) {
		id = listener(s, RDMA_PS_TCP, "0.0.0.0", PORT);
		meet(s);
		meet(s);
		OK(rdma_destroy_id(id));
		return;
	}
	meet(s);
	CHECK(list = rdma_get_devices(NULL));
	do {
		CHECK(all = realloc(all, (count + 1) * sizeof(*all)));
		all[count] = ibv_alloc_pd(list[0]);
	} while (all[count++]);
	id = make(s, RDMA_PS_TCP, NULL);
	OK(rdma_resolve_addr(id, NULL, at(SERVER, PORT), TIMEOUT));
	got = event(s->channel, RDMA_CM_EVENT_ADDR_ERROR);
	IS(got->status, -ENOMEM);
	CHECK(id->verbs == list[0] && id->port_num == 1 && !id->pd);
	OK(rdma_ack_cm_event(got));
	OK(rdma_destroy_id(id));
	while (count-- > 1)
		OK(ibv_dealloc_pd(all[count - 1]));
	free(all);
	id = resolved(s, RDMA_PS_TCP, SERVER, PORT);
	OK(rdma_destroy_id(id));
	rdma_free_devices(list);
	meet(s);
}

static const struct test_case cases[] = {
	{ "rc", rc }, { "reject", reject }, { "endpoints", endpoints }, { "ud", ud }, { "events", events },
	{ "errors", errors }, { "pending", pending }, { "attributes", attributes }, { "forks", forks }, { "killed", killed },
	{ "gone", gone }, { "alone", alone }, { "srq", srq }, { "loopback", loopback }, { "threads", threads },
	{ "takers", takers }, { "moves", moves }, { "services", services }, { "interrupted", interrupted },
	{ "early", early }, { "domains", domains },
};

static void begin(struct side *s)
{
	CHECK(s->channel = rdma_create_event_channel());
}

int main(int argc, char **argv)
{
	return run_case(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), begin);
}
