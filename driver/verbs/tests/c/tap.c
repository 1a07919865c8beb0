/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A TAP interface on a card's port, in a network namespace of its own: tap CASE CARD
 *
 * The card has 10.7.0.2, and the interface gets 10.9.0.2. The other card is a program's that has 10.9.0.1. A process that finds something
 * wrong says where and ends with 1. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/if_tun.h>
#include <linux/rtnetlink.h>

#include "declarations.h"

#define PATIENCE 60
#define TIMEOUT 10000
#define TAP "FERROWIRE_TAP"

static void wrong(int line, const char *what)
{
	fprintf(stderr, "line %d: %s (errno %d, %s)\n", line, what, errno, strerror(errno));
	_exit(1);
}

#define CHECK(condition) do { if (!(condition)) wrong(__LINE__, #condition); } while (0)
#define IS(call, number) do { long result_ = (call); if (result_ != (number)) { \
	fprintf(stderr, "%ld, not %ld: ", result_, (long)(number)); wrong(__LINE__, #call); } } while (0)
#define OK(call) IS(call, 0)

static struct sockaddr_in at(const char *ip, int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

	CHECK(inet_pton(AF_INET, ip, &address.sin_addr) == 1);
	return address;
}

static ibv_context *opened(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	CHECK(list && count == 1);
	ibv_context *ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	return ctx;
}

static void named(struct ifreq *request, const char *name)
{
	memset(request, 0, sizeof(*request));
	strncpy(request->ifr_name, name, IFNAMSIZ - 1);
}

/* Gives the interface an address, and sets it up. */
static void configure(const char *name, const char *ip)
{
	int any = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in address = at(ip, 0), mask = at("255.255.255.0", 0);
	struct ifreq request;

	CHECK(any >= 0);
	named(&request, name);
	memcpy(&request.ifr_addr, &address, sizeof(address));
	OK(ioctl(any, SIOCSIFADDR, &request));
	memcpy(&request.ifr_netmask, &mask, sizeof(mask));
	OK(ioctl(any, SIOCSIFNETMASK, &request));
	named(&request, name);
	OK(ioctl(any, SIOCGIFFLAGS, &request));
	request.ifr_flags |= IFF_UP;
	OK(ioctl(any, SIOCSIFFLAGS, &request));
	close(any);
}

static int has_gid(ibv_context *ctx, int index, const char *ip)
{
	struct sockaddr_in address = at(ip, 0);
	ibv_gid gid;

	return !ibv_query_gid(ctx, 1, index, &gid) && !memcmp(gid.raw + 12, &address.sin_addr, 4) && gid.raw[10] == 0xff;
}

/* The interface has the card's MAC address, of which the first GID is made, and is up. */
static void is_the_ports(ibv_context *ctx, const char *name)
{
	int any = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq request;
	unsigned char *mac = (unsigned char *)request.ifr_hwaddr.sa_data;
	ibv_gid gid;

	OK(ibv_query_gid(ctx, 1, 0, &gid));
	named(&request, name);
	OK(ioctl(any, SIOCGIFHWADDR, &request));
	unsigned char made[8] = { mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5] };
	CHECK(!memcmp(made, gid.raw + 8, 8));
	OK(ioctl(any, SIOCGIFFLAGS, &request));
	CHECK(request.ifr_flags & IFF_UP);
	close(any);
}

static void gets_event(ibv_context *ctx, ibv_event_type kind)
{
	struct pollfd file = { .fd = ctx->async_fd, .events = POLLIN };
	ibv_async_event event;

	IS(poll(&file, 1, 1000 * PATIENCE), 1);
	OK(ibv_get_async_event(ctx, &event));
	IS(event.event_type, kind);
	ibv_ack_async_event(&event);
}

static uint16_t sum(const unsigned char *bytes, int count)
{
	uint32_t all = 0;

	for (int i = 0; i < count; i += 2)
		all += bytes[i] << 8 | bytes[i + 1];
	all = (all & 0xffff) + (all >> 16);
	return ~((all & 0xffff) + (all >> 16));
}

/* The kernel asks for an echo (RFC 792). */
static void ping(const char *ip, int number)
{
	int any = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
	struct sockaddr_in to = at(ip, 0);
	unsigned char echo[64] = { 8, 0, 0, 0, 0x12, 0x34, 0, number }, reply[256];
	uint16_t check;

	CHECK(any >= 0);
	for (unsigned i = 8; i < sizeof(echo); i++)
		echo[i] = i + number;
	check = sum(echo, sizeof(echo));
	echo[2] = check >> 8;
	echo[3] = check;
	for (int tries = 0; tries < PATIENCE; tries++) {
		struct pollfd file = { .fd = any, .events = POLLIN };

		CHECK(sendto(any, echo, sizeof(echo), 0, (struct sockaddr *)&to, sizeof(to)) == sizeof(echo));
		while (poll(&file, 1, 1000) == 1) {
			ssize_t bytes = recv(any, reply, sizeof(reply), 0);

			/* After a header of 20 bytes. */
			if (bytes == 20 + sizeof(echo) && reply[20] == 0 && !memcmp(reply + 24, echo + 4, sizeof(echo) - 4)) {
				close(any);
				return;
			}
		}
	}
	wrong(__LINE__, "no echo comes back");
}

/* A forked child has no file of the interface. */
static void child_has_none(void)
{
	int status = -1;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		for (int file = 0; file < 256; file++) {
			char path[32], link[64] = "";

			snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
			if (readlink(path, link, sizeof(link) - 1) > 0 && strstr(link, "net/tun"))
				_exit(1);
		}
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What the program does with its card, while the kernel talks over the same port. */
static void traffic(void)
{
	ibv_context *ctx = opened();
	struct sockaddr_in near = at("10.9.0.2", 0), far = at("10.9.0.1", 7), none = at("10.9.0.3", 0);
	rdma_cm_id *id;

	CHECK(ctx);
	is_the_ports(ctx, "fw0");
	CHECK(has_gid(ctx, 1, "10.7.0.2") && !has_gid(ctx, 2, "10.9.0.2"));
	/* The raw queue pair is the interface's. */
	ibv_pd *pd = ibv_alloc_pd(ctx);
	ibv_cq *cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RAW_PACKET,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	CHECK(pd && cq && !ibv_create_qp(pd, &attr) && errno == EBUSY);
	/* An address that comes later is the card's at once. */
	configure("fw0", "10.9.0.2");
	gets_event(ctx, IBV_EVENT_GID_CHANGE);
	CHECK(has_gid(ctx, 2, "10.9.0.2"));
	child_has_none();
	ping("10.9.0.1", 1);
	/* What may be RoCE does not leave, and harms nothing. */
	int any = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in roce = at("10.9.0.1", 4791);
	for (int i = 0; i < 3; i++)
		CHECK(sendto(any, "forged", 6, 0, (struct sockaddr *)&roce, sizeof(roce)) == 6);
	close(any);
	ping("10.9.0.1", 2);
	/* The library finds peers on the interface's network from its address. */
	OK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	IS(rdma_bind_addr(id, (struct sockaddr *)&none), -1);
	IS(errno, EADDRNOTAVAIL);
	OK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&far, TIMEOUT));
	CHECK(!memcmp(&id->route.addr.src.src_sin.sin_addr, &near.sin_addr, 4));
	OK(rdma_destroy_id(id));
	/* The other side speaks TCP with the kernel of this one. */
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	near.sin_port = htons(5000);
	OK(bind(listener, (struct sockaddr *)&near, sizeof(near)));
	OK(listen(listener, 1));
	printf("ready\n");
	fflush(stdout);
	int peer = accept(listener, NULL, NULL);
	CHECK(peer >= 0);
	static char bytes[65536];
	ssize_t more;
	while ((more = read(peer, bytes, sizeof(bytes))) > 0)
		for (ssize_t sent = 0, now; sent < more; sent += now)
			CHECK((now = write(peer, bytes + sent, more - sent)) > 0);
	OK(more);
	close(peer);
	close(listener);
}

/* Runs a part in a process of its own, which must end well. */
static void apart(void (*part)(void))
{
	int status = -1;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		part();
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void opens_new(void)
{
	setenv(TAP, "fw0", 1);
	CHECK(opened() && if_nametoindex("fw0"));
}

static void opens_old(void)
{
	setenv(TAP, "fw1", 1);
	ibv_context *ctx = opened();

	CHECK(ctx);
	is_the_ports(ctx, "fw1");
	/* Its address is there from the start. */
	CHECK(has_gid(ctx, 2, "10.9.0.2"));
}

/* Attaches to an interface, or makes it. */
static int attached(const char *name)
{
	int file = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	struct ifreq request;

	CHECK(file >= 0);
	named(&request, name);
	request.ifr_flags = IFF_TAP | IFF_NO_PI;
	OK(ioctl(file, TUNSETIFF, &request));
	return file;
}

/* What is left of an interface is what was there before. */
static void traces(void)
{
	apart(opens_new);
	IS(if_nametoindex("fw0"), 0);
	int file = attached("fw1");
	OK(ioctl(file, TUNSETPERSIST, 1));
	configure("fw1", "10.9.0.2");
	close(file);
	apart(opens_old);
	CHECK(if_nametoindex("fw1"));
}

static void fails(const char *name, int number)
{
	setenv(TAP, name, 1);
	errno = 0;
	CHECK(!opened());
	IS(errno, number);
}

/* Without its interface the card is not opened, and it is as soon as there is one. */
static void errors(void)
{
	int file = attached("fw9");

	fails("a-name-of-16-byt", ENAMETOOLONG);
	fails("fw/0", EINVAL);
	/* It is no TAP interface. */
	fails("lo", EINVAL);
	fails("fw9", EBUSY);
	close(file);
	if (!seteuid(65534)) {
		setenv(TAP, "fw0", 1);
		CHECK(!opened() && (errno == EPERM || errno == EACCES));
		OK(seteuid(0));
	}
	setenv(TAP, "fw9", 1);
	ibv_context *ctx = opened();
	CHECK(ctx);
	is_the_ports(ctx, "fw9");
}

static void delete(const char *name)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg about;
	} message = {
		.head = { .nlmsg_len = sizeof(message), .nlmsg_type = RTM_DELLINK, .nlmsg_flags = NLM_F_REQUEST },
		.about = { .ifi_index = if_nametoindex(name) },
	};
	int any = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);

	CHECK(any >= 0 && send(any, &message, sizeof(message), 0) == sizeof(message));
	close(any);
	CHECK(!if_nametoindex(name));
}

/* The program and its card go on when the interface is removed, and have none of its addresses any more. */
static void removed(void)
{
	struct sockaddr_in own = at("10.7.0.2", 0), lost = at("10.9.0.2", 0);
	rdma_cm_id *id;

	int file = attached("fw0");
	OK(ioctl(file, TUNSETPERSIST, 1));
	configure("fw0", "10.9.0.2");
	close(file);
	ibv_context *ctx = opened();
	CHECK(ctx && has_gid(ctx, 2, "10.9.0.2"));
	OK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	OK(rdma_bind_addr(id, (struct sockaddr *)&lost));
	OK(rdma_destroy_id(id));
	delete("fw0");
	OK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	for (int tries = 0; !rdma_bind_addr(id, (struct sockaddr *)&lost); tries++) {
		CHECK(tries < 100 * PATIENCE);
		OK(rdma_destroy_id(id));
		OK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
		usleep(10000);
	}
	IS(errno, EADDRNOTAVAIL);
	OK(rdma_bind_addr(id, (struct sockaddr *)&own));
	OK(rdma_destroy_id(id));
	/* It waits for nothing all the time: a second costs less than a tenth. */
	clock_t before = clock();
	sleep(1);
	CHECK(clock() - before < CLOCKS_PER_SEC / 10);
}

/* A card whose server was started again gets its interface again, in the same process. */
static void returns(void)
{
	ibv_context *old = opened(), *ctx;
	int count = 0;

	CHECK(old);
	is_the_ports(old, "fw0");
	printf("ready\n");
	fflush(stdout);
	gets_event(old, IBV_EVENT_DEVICE_FATAL);
	/* It is free, while the card that is gone still has a context. */
	close(attached("fw0"));
	printf("gone\n");
	fflush(stdout);
	struct ibv_device **list = ibv_get_device_list(&count);
	CHECK(list && count == 1);
	while (!(ctx = ibv_open_device(list[0]))) {
		CHECK(errno == ECONNREFUSED || errno == ENOENT || errno == EIO);
		usleep(10 * 1000);
	}
	ibv_free_device_list(list);
	is_the_ports(ctx, "fw0");
	configure("fw0", "10.9.0.2");
	gets_event(ctx, IBV_EVENT_GID_CHANGE);
	CHECK(has_gid(ctx, 2, "10.9.0.2"));
	OK(ibv_close_device(old));
	OK(ibv_close_device(ctx));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "traffic", traffic }, { "traces", traces }, { "errors", errors }, { "removed", removed },
	{ "returns", returns },
};

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	alarm(2 * PATIENCE);
	setenv("FERROWIRE_DEVICE", argv[2], 1);
	setenv(TAP, "fw0", 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!strcmp(cases[i].name, argv[1])) {
			cases[i].run();
			return 0;
		}
	}
	fprintf(stderr, "no case %s\n", argv[1]);
	return 2;
}
