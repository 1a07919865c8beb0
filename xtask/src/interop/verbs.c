// SPDX-License-Identifier: MIT OR Apache-2.0
// One side of the verbs exerciser, for any device that libibverbs has: does what the other end of a TCP connection says.
//
//   verbs DEVICE GID_INDEX HOST PORT
//
// The other end (driver/cli/examples/exercise) knows the steps, and compares. A command is a line, and so is its answer: `ok` with what was asked
// for, or `failed` with the call and the reason. Numbers of opcodes, flags, rights and states are those of <infiniband/verbs.h>.
//
//   begin STEP ACCESS                    a step: memory with its pattern, registered       -> ADDRESS RKEY
//   qp TYPE ACCESS                       a queue pair in INIT, TYPE of ibv_qp_type          -> QPN PSN
//   connect GID QPN PSN MTU TIMEOUT RETRY_CNT RNR_RETRY MIN_RNR_TIMER    brings it to RTS
//   recv WR_ID {OFFSET BYTES}            posts a receive
//   send WR_ID OPCODE FLAGS IMM ADDRESS RKEY FIRST SECOND {OFFSET BYTES} adds a request; IMM is the key that is invalidated, too
//   bind WR_ID OFFSET BYTES ACCESS       adds a bind of a new window of type 2              -> RKEY
//   ring                                 posts the requests that were added, in one call
//   poll COUNT MILLISECONDS              completions, until there are so many
//                                        -> {WR_ID STATUS OPCODE BYTES FLAGS IMM KEY SRC_QP}, the key that was invalidated
//   arm SOLICITED                        asks for an event
//   event MILLISECONDS                   whether it comes                                    -> 0 or 1
//   state                                of the queue pair                                   -> STATE
//   memory                               all of it, behind the line                          -> BYTES
//   end

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 65536, SGES = 8, REQUESTS = 64, WINDOWS = 4, INLINE = 128, PORT = 1, QKEY = 0x11111111 };

// What the other end says, and what it is told.
static FILE *heard, *peer;
static struct ibv_context *device;
static struct ibv_pd *pd;
static uint8_t *memory;
static int gid_index;

// Of a step.
static struct ibv_mr *mr;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_ah *ah;
static struct ibv_mw *windows[WINDOWS];
static uint32_t dest_qpn, psn;

// Requests that were added and not posted.
static struct ibv_send_wr requests[REQUESTS];
static struct ibv_sge pieces[REQUESTS][SGES];
static int added;

__attribute__((format(printf, 1, 2), noreturn)) static void give_up(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("verbs: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

// An answer's end; 0 for convenience.
static int failed(const char *call)
{
    fprintf(peer, "failed %s: %s\n", call, strerror(errno));
    return 0;
}

static int fine(void)
{
    fputs("ok\n", peer);
    return 0;
}

// The next number of the command; 0 where there is none.
static uint64_t number(void)
{
    const char *word = strtok(NULL, " \n");
    return word ? strtoull(word, NULL, 0) : 0;
}

// The next number, if there is one.
static int more(uint64_t *value)
{
    const char *word = strtok(NULL, " \n");
    *value = word ? strtoull(word, NULL, 0) : 0;
    return word != NULL;
}

// Pieces of memory to the end of the command.
static int list(struct ibv_sge *sges)
{
    int count = 0;
    uint64_t offset;
    while (count < SGES && more(&offset)) {
        sges[count++] = (struct ibv_sge){
            .addr = (uintptr_t)memory + offset, .length = (uint32_t)number(), .lkey = mr->lkey};
    }
    return count;
}

// The pattern of a step: this side's is that of an odd number. `pattern` of the other end is the same.
static uint8_t pattern(uint32_t step, uint32_t at)
{
    uint32_t x = ((2 * step + 1) * 40503u + at) * 2654435761u;
    x ^= x >> 16;
    return (uint8_t)((x * 2654435761u) >> 24);
}

static void forget(void)
{
    if (qp && ibv_destroy_qp(qp))
        give_up("ibv_destroy_qp: %s", strerror(errno));
    for (int i = 0; i < WINDOWS; i++) {
        if (windows[i] && ibv_dealloc_mw(windows[i]))
            give_up("ibv_dealloc_mw: %s", strerror(errno));
        windows[i] = NULL;
    }
    if (ah && ibv_destroy_ah(ah))
        give_up("ibv_destroy_ah: %s", strerror(errno));
    if (cq && ibv_destroy_cq(cq))
        give_up("ibv_destroy_cq: %s", strerror(errno));
    if (channel && ibv_destroy_comp_channel(channel))
        give_up("ibv_destroy_comp_channel: %s", strerror(errno));
    if (mr && ibv_dereg_mr(mr))
        give_up("ibv_dereg_mr: %s", strerror(errno));
    qp = NULL, ah = NULL, cq = NULL, channel = NULL, mr = NULL, added = 0;
}

static int begin(void)
{
    forget();
    uint32_t step = (uint32_t)number();
    for (uint32_t i = 0; i < BYTES; i++)
        memory[i] = pattern(step, i);
    mr = ibv_reg_mr(pd, memory, BYTES, (int)number());
    if (!mr)
        return failed("ibv_reg_mr");
    fprintf(peer, "ok %" PRIuPTR " %" PRIu32 "\n", (uintptr_t)memory, mr->rkey);
    return 0;
}

static int queue_pair(void)
{
    enum ibv_qp_type type = (enum ibv_qp_type)number();
    if (!(channel = ibv_create_comp_channel(device)))
        return failed("ibv_create_comp_channel");
    if (!(cq = ibv_create_cq(device, 4 * REQUESTS, NULL, channel, 0)))
        return failed("ibv_create_cq");
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = REQUESTS,
                .max_recv_wr = REQUESTS,
                .max_send_sge = SGES,
                .max_recv_sge = SGES,
                .max_inline_data = INLINE},
        .qp_type = type,
    };
    if (!(qp = ibv_create_qp(pd, &init)))
        return failed("ibv_create_qp");
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY, .qp_access_flags = (unsigned)number()};
    int what = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    what |= type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    if ((errno = ibv_modify_qp(qp, &attr, what)))
        return failed("ibv_modify_qp to INIT");
    psn = (uint32_t)lrand48() & 0xffffff;
    fprintf(peer, "ok %" PRIu32 " %" PRIu32 "\n", qp->qp_num, psn);
    return 0;
}

static int connect_peer(void)
{
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR};
    rtr.ah_attr = (struct ibv_ah_attr){
        .is_global = 1, .port_num = PORT, .grh = {.sgid_index = (uint8_t)gid_index, .hop_limit = 64}};
    const char *gid = strtok(NULL, " \n");
    if (!gid || inet_pton(AF_INET6, gid, &rtr.ah_attr.grh.dgid) != 1) {
        errno = EINVAL;
        return failed("inet_pton of the peer's GID");
    }
    rtr.dest_qp_num = dest_qpn = (uint32_t)number();
    rtr.rq_psn = (uint32_t)number();
    rtr.path_mtu = (enum ibv_mtu)number();
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = psn, .max_rd_atomic = 4};
    rts.timeout = (uint8_t)number();
    rts.retry_cnt = (uint8_t)number();
    rts.rnr_retry = (uint8_t)number();
    rtr.min_rnr_timer = (uint8_t)number();
    rtr.max_dest_rd_atomic = 4;
    int to_rtr = IBV_QP_STATE, to_rts = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (qp->qp_type != IBV_QPT_UD)
        to_rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (qp->qp_type == IBV_QPT_RC) {
        to_rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        to_rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    if ((errno = ibv_modify_qp(qp, &rtr, to_rtr)))
        return failed("ibv_modify_qp to RTR");
    if ((errno = ibv_modify_qp(qp, &rts, to_rts)))
        return failed("ibv_modify_qp to RTS");
    if (qp->qp_type == IBV_QPT_UD && !(ah = ibv_create_ah(pd, &rtr.ah_attr)))
        return failed("ibv_create_ah");
    return fine();
}

static int receive(void)
{
    struct ibv_sge sges[SGES];
    struct ibv_recv_wr *bad, wr = {.wr_id = number(), .sg_list = sges};
    wr.num_sge = list(sges);
    return (errno = ibv_post_recv(qp, &wr, &bad)) ? failed("ibv_post_recv") : fine();
}

// One more request.
static struct ibv_send_wr *add(void)
{
    if (added == REQUESTS)
        give_up("more than %d requests", REQUESTS);
    struct ibv_send_wr *wr = &requests[added];
    *wr = (struct ibv_send_wr){.wr_id = number(), .sg_list = pieces[added]};
    if (added++)
        wr[-1].next = wr;
    return wr;
}

static int send_request(void)
{
    struct ibv_send_wr *wr = add();
    wr->opcode = (enum ibv_wr_opcode)number();
    wr->send_flags = (unsigned)number();
    uint32_t imm = (uint32_t)number();
    if (wr->opcode == IBV_WR_SEND_WITH_INV || wr->opcode == IBV_WR_LOCAL_INV)
        wr->invalidate_rkey = imm;
    else
        wr->imm_data = htonl(imm);
    uint64_t address = number(), rkey = number(), first = number(), second = number();
    if (qp->qp_type == IBV_QPT_UD) {
        wr->wr.ud.ah = ah;
        wr->wr.ud.remote_qpn = dest_qpn;
        wr->wr.ud.remote_qkey = QKEY;
    } else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr->wr.atomic.remote_addr = address;
        wr->wr.atomic.rkey = (uint32_t)rkey;
        wr->wr.atomic.compare_add = first;
        wr->wr.atomic.swap = second;
    } else {
        wr->wr.rdma.remote_addr = address;
        wr->wr.rdma.rkey = (uint32_t)rkey;
    }
    wr->num_sge = list(wr->sg_list);
    return fine();
}

static int bind_window(void)
{
    struct ibv_send_wr *wr = add();
    struct ibv_mw **window = windows;
    while (*window && window < windows + WINDOWS - 1)
        window++;
    if (*window || !(*window = ibv_alloc_mw(pd, IBV_MW_TYPE_2)))
        return failed("ibv_alloc_mw");
    wr->opcode = IBV_WR_BIND_MW;
    wr->send_flags = IBV_SEND_SIGNALED;
    wr->bind_mw.mw = *window;
    wr->bind_mw.rkey = ibv_inc_rkey((*window)->rkey);
    wr->bind_mw.bind_info.mr = mr;
    wr->bind_mw.bind_info.addr = (uintptr_t)memory + number();
    wr->bind_mw.bind_info.length = number();
    wr->bind_mw.bind_info.mw_access_flags = (unsigned)number();
    fprintf(peer, "ok %" PRIu32 "\n", wr->bind_mw.rkey);
    return 0;
}

static int ring(void)
{
    struct ibv_send_wr *bad;
    int count = added;
    added = 0;
    return count && (errno = ibv_post_send(qp, requests, &bad)) ? failed("ibv_post_send") : fine();
}

// By this machine's clock, which may stand now and then.
static int64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static int take(void)
{
    int wanted = (int)number();
    int64_t end = milliseconds() + (int64_t)number();
    struct ibv_wc done[4 * REQUESTS];
    int count = 0;
    for (;;) {
        int taken = ibv_poll_cq(cq, 4 * REQUESTS - count, done + count);
        if (taken < 0)
            return failed("ibv_poll_cq");
        count += taken;
        if (count >= wanted || milliseconds() >= end)
            break;
        usleep(100);
    }
    fputs("ok", peer);
    for (struct ibv_wc *wc = done; wc < done + count; wc++) {
        // Immediate and key are one word, which is the flags to say.
        fprintf(peer, " %" PRIu64 " %d %d %" PRIu32 " %u %" PRIu32 " %" PRIu32 " %" PRIu32, wc->wr_id, wc->status,
                wc->opcode, wc->byte_len, wc->wc_flags, ntohl(wc->imm_data), wc->invalidated_rkey, wc->src_qp);
    }
    fputc('\n', peer);
    return 0;
}

static int arm(void)
{
    return (errno = ibv_req_notify_cq(cq, (int)number())) ? failed("ibv_req_notify_cq") : fine();
}

static int event(void)
{
    struct pollfd wait = {.fd = channel->fd, .events = POLLIN};
    int came = poll(&wait, 1, (int)number());
    if (came > 0) {
        struct ibv_cq *of;
        void *ignored;
        if (ibv_get_cq_event(channel, &of, &ignored))
            return failed("ibv_get_cq_event");
        ibv_ack_cq_events(of, 1);
    }
    fprintf(peer, "ok %d\n", came > 0);
    return 0;
}

static int state(void)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    if ((errno = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init)))
        return failed("ibv_query_qp");
    fprintf(peer, "ok %d\n", attr.qp_state);
    return 0;
}

static int tell_memory(void)
{
    fprintf(peer, "ok %d\n", BYTES);
    fwrite(memory, 1, BYTES, peer);
    return 0;
}

static int end(void)
{
    forget();
    fine();
    return 1;
}

static const struct {
    const char *name;
    // Not 0: nothing follows.
    int (*does)(void);
} commands[] = {
    {"begin", begin}, {"qp", queue_pair},     {"connect", connect_peer}, {"recv", receive}, {"send", send_request},
    {"bind", bind_window}, {"ring", ring},    {"poll", take},            {"arm", arm},      {"event", event},
    {"state", state}, {"memory", tell_memory}, {"end", end},
};

static int carry_out(char *line)
{
    const char *name = strtok(line, " \n");
    for (size_t i = 0; name && i < sizeof commands / sizeof *commands; i++) {
        if (!strcmp(name, commands[i].name))
            return commands[i].does();
    }
    give_up("`%s` is no command", name ? name : "");
}

static void open_device(const char *name)
{
    struct ibv_device **all = ibv_get_device_list(NULL);
    for (struct ibv_device **one = all; one && *one; one++) {
        if (!strcmp(ibv_get_device_name(*one), name))
            device = ibv_open_device(*one);
    }
    if (!device)
        give_up("there is no device %s, or it does not open", name);
    if (all)
        ibv_free_device_list(all);
    if (!(pd = ibv_alloc_pd(device)))
        give_up("ibv_alloc_pd: %s", strerror(errno));
    memory = aligned_alloc((size_t)sysconf(_SC_PAGESIZE), BYTES);
    if (!memory)
        give_up("no memory");
}

static void open_peer(const char *host, const char *port)
{
    struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM};
    int error = getaddrinfo(host, port, &hints, &found);
    if (error)
        give_up("%s port %s: %s", host, port, gai_strerror(error));
    int file = socket(found->ai_family, SOCK_STREAM, 0);
    if (file < 0 || connect(file, found->ai_addr, found->ai_addrlen))
        give_up("%s port %s: %s", host, port, strerror(errno));
    freeaddrinfo(found);
    int at_once = 1;
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    if (!(heard = fdopen(file, "r")) || !(peer = fdopen(dup(file), "w")))
        give_up("fdopen: %s", strerror(errno));
}

int main(int count, char **arguments)
{
    if (count != 5)
        give_up("give: DEVICE GID_INDEX HOST PORT");
    gid_index = atoi(arguments[2]);
    srand48(time(NULL));
    open_device(arguments[1]);
    open_peer(arguments[3], arguments[4]);
    char line[1024];
    int last = 0;
    while (!last && fgets(line, sizeof line, heard)) {
        last = carry_out(line);
        fflush(peer);
    }
    if (!last)
        give_up("the other end is gone");
    return 0;
}
