/*
 * FLUSH and ATOMIC WRITE by raw verbs, over a connection made as ib_atomic_lat makes its own.
 *
 *   flush [-d DEVICE] [-x GID-INDEX] [-p PORT] [-m MTU] [-n COUNT] [-u TIMEOUT] [-r RETRIES] OPERATION [SERVER]
 *
 * OPERATION is atomic_write, flush_range, flush_region or counter; with SERVER, an IPv4 address, it is a client, without it a
 * server. The client's operations go to the start of the server's region, of which it assumes SIZE bytes:
 *
 *   atomic_write   COUNT numbers, each to the next eight bytes
 *   flush_range    COUNT times a WRITE of WRITE_LEN bytes, and behind it a FLUSH of just these, for global visibility
 *   flush_region   the same, but the FLUSH is of the whole region
 *   counter        COUNT ATOMIC WRITEs of 1, 2, 3, … to the first eight bytes
 *
 * In the end it reads everything back and compares. It prints `OPERATION: COUNT done`, or what failed and how. The
 * server prints the same once the client has said that it is done and the region holds what COUNT operations leave.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 65536, WRITE_LEN = 3000, KEY_LEN = 108, GID_AT = 50, WAIT_SECONDS = 20, ADDRESS_SECONDS = 5 };
enum operation { ATOMIC_WRITE, FLUSH_RANGE, FLUSH_REGION, COUNTER, OPERATIONS };
static const char *const names[] = { "atomic_write", "flush_range", "flush_region", "counter" };

struct end {
	uint32_t qpn, psn, rkey;
	uint64_t va;
	union ibv_gid gid;
};

static struct ibv_context *device;
static struct ibv_cq *cq;
static struct ibv_qp_ex *qp;
static struct ibv_mr *mr, *source;
static uint8_t *region, *prepared;
static const char *device_name = "rxe0";
static int gid_index = 1, port = 18515, mtu = 1024, timeout = 14, retries = 7;
static unsigned count = 20;

static void die(const char *what)
{
	printf("flush: %s failed\n", what);
	exit(1);
}

/* ---- What is written ------------------------------------------------------------------------ */

static uint64_t number(unsigned i)
{
	return 0x0123456789abcdefull * (i + 1);
}

static unsigned offset_of(enum operation operation, unsigned i)
{
	if (operation == COUNTER)
		return 0;
	return operation == ATOMIC_WRITE ? i * 8 % SIZE : i * WRITE_LEN % (SIZE - WRITE_LEN);
}

static void prepare(enum operation operation, unsigned i, uint8_t *at)
{
	uint64_t value = operation == COUNTER ? i + 1 : number(i);

	if (operation == ATOMIC_WRITE || operation == COUNTER) {
		memcpy(at, &value, sizeof value);
		return;
	}
	for (unsigned byte = 0; byte < WRITE_LEN; byte++)
		at[byte] = (uint8_t)(number(i) >> byte % 57) + byte;
}

/* All that COUNT operations leave, in `into`, which is zero elsewhere. */
static void expect(enum operation operation, uint8_t *into)
{
	for (unsigned i = 0; i < count; i++)
		prepare(operation, i, into + offset_of(operation, i));
}

/* ---- The device ----------------------------------------------------------------------------- */

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i] && !device; i++)
		if (!strcmp(ibv_get_device_name(list[i]), device_name))
			device = ibv_open_device(list[i]);
	if (!device)
		die("opening the device");
	struct ibv_pd *pd = ibv_alloc_pd(device);
	cq = ibv_create_cq(device, 64, NULL, NULL, 0);
	region = aligned_alloc(4096, SIZE);
	prepared = aligned_alloc(4096, SIZE);
	if (!pd || !cq || !region || !prepared)
		die("making a protection domain, a queue and memory");
	memset(region, 0, SIZE);
	memset(prepared, 0, SIZE);
	mr = ibv_reg_mr(pd, region, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL);
	source = ibv_reg_mr(pd, prepared, SIZE, IBV_ACCESS_LOCAL_WRITE);
	if (!mr || !source)
		die("registering memory, a region that may be flushed among it,");

	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .pd = pd, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 32, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_WRITE |
				  IBV_QP_EX_WITH_FLUSH,
	};
	struct ibv_qp *plain = ibv_create_qp_ex(device, &init);

	if (!plain)
		die("creating a queue pair with FLUSH and ATOMIC WRITE");
	qp = ibv_qp_to_qp_ex(plain);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
				   IBV_ACCESS_FLUSH_GLOBAL,
	};
	if (ibv_modify_qp(plain, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("INIT");
}

static struct end ourselves(void)
{
	struct end end = { qp->qp_base.qp_num, 0x345678, mr->rkey, (uintptr_t)region, { { 0 } } };

	if (ibv_query_gid(device, 1, gid_index, &end.gid))
		die("querying the GID");
	return end;
}

static void connect_qp(const struct end *ours, const struct end *theirs)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = mtu == 256 ? IBV_MTU_256 : mtu == 512 ? IBV_MTU_512 :
			mtu == 1024 ? IBV_MTU_1024 : mtu == 2048 ? IBV_MTU_2048 : IBV_MTU_4096,
		.dest_qp_num = theirs->qpn, .rq_psn = theirs->psn, .max_dest_rd_atomic = 16, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = theirs->gid, .sgid_index = gid_index, .hop_limit = 64 } },
	};
	/* An address that is not resolved yet is no failure. */
	int status = ibv_modify_qp(&qp->qp_base, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	for (int tries = 0; status && tries < ADDRESS_SECONDS; tries++) {
		sleep(1);
		status = ibv_modify_qp(&qp->qp_base, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER);
	}
	if (status)
		die("RTR");
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .sq_psn = ours->psn, .timeout = timeout, .retry_cnt = retries, .rnr_retry = 7,
		.max_rd_atomic = 16,
	};
	if (ibv_modify_qp(&qp->qp_base, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS");
}

/* ---- The exchange over TCP ------------------------------------------------------------------ */

static void transfer(int line, void *bytes, size_t len, int to_peer)
{
	for (size_t done = 0; done < len;) {
		ssize_t step = to_peer ? write(line, (char *)bytes + done, len - done)
				       : read(line, (char *)bytes + done, len - done);
		if (step <= 0)
			die("the exchange over TCP");
		done += step;
	}
}

/* One message each way; the client speaks first. */
static void swap(int line, int client, void *ours, void *theirs, size_t len)
{
	transfer(line, client ? ours : theirs, len, client);
	transfer(line, client ? theirs : ours, len, !client);
}

static struct end parse_key(const char *text)
{
	struct end end;
	unsigned long long va;

	if (sscanf(text, "%*4x:%*4x:%6x:%6x:%8x:%16llx:", &end.qpn, &end.psn, &end.rkey, &va) != 4)
		die("reading the peer's key");
	end.va = va;
	for (int i = 0; i < 16; i++)
		end.gid.raw[i] = strtoul(text + GID_AT + 3 * i, NULL, 16);
	return end;
}

static struct end swap_keys(int line, int client, const struct end *ours)
{
	char mine[KEY_LEN + 1], peer[KEY_LEN + 1] = { 0 };
	int at = sprintf(mine, "%04x:%04x:%06x:%06x:%08x:%016llx:", 0, 16, ours->qpn, ours->psn, ours->rkey,
			 (unsigned long long)ours->va);

	for (int i = 0; i < 16; i++)
		at += sprintf(mine + at, "%02x:", ours->gid.raw[i]);
	sprintf(mine + at, "%08x:", 0);
	swap(line, client, mine, peer, KEY_LEN);
	return parse_key(peer);
}

/* ib_atomic_lat's: version, two sizes, path MTU, then the key and three barriers in its shape. */
static struct end meet(int line, int client, const struct end *ours)
{
	char version[16] = "6.06", other[16], code[2] = { "12345"[__builtin_ctz(mtu) - 8], 0 };
	uint32_t cycle = htonl(4096), cache_line = htonl(64);
	struct end theirs;

	swap(line, client, version, other, sizeof version);
	swap(line, client, &cycle, other, sizeof cycle);
	swap(line, client, &cache_line, other, sizeof cache_line);
	swap(line, client, code, other, sizeof code);
	if (client) {
		theirs = swap_keys(line, client, ours);
		connect_qp(ours, &theirs);
	} else {
		/* The client may begin once it has our answer: not before the queue pair is ready. Its key is read
		   ahead of the answer to it. */
		char peek[KEY_LEN + 1] = { 0 };
		if (recv(line, peek, KEY_LEN, MSG_PEEK | MSG_WAITALL) != KEY_LEN)
			die("the exchange over TCP");
		theirs = parse_key(peek);
		connect_qp(ours, &theirs);
		swap_keys(line, client, ours);
	}
	for (int barrier = 0; barrier < 3; barrier++)
		swap_keys(line, client, ours);
	return theirs;
}

/* ---- The run -------------------------------------------------------------------------------- */

static void wait_for(int completions, const char *what)
{
	time_t until = time(NULL) + WAIT_SECONDS;
	struct ibv_wc wc;

	while (completions > 0) {
		int found = ibv_poll_cq(cq, 1, &wc);
		if (found == 0 && time(NULL) > until)
			die("waiting for a completion");
		if (found <= 0)
			continue;
		if (wc.status != IBV_WC_SUCCESS) {
			printf("flush: %s: %s\n", what, ibv_wc_status_str(wc.status));
			exit(1);
		}
		completions--;
	}
}

static void start(uint64_t id)
{
	qp->wr_id = id;
	qp->wr_flags = IBV_SEND_SIGNALED;
}

static void run(enum operation operation, const struct end *peer)
{
	for (unsigned i = 0; i < count; i++) {
		unsigned offset = offset_of(operation, i);

		prepare(operation, i, prepared + offset);
		ibv_wr_start(qp);
		start(2 * i);
		if (operation == ATOMIC_WRITE || operation == COUNTER) {
			ibv_wr_atomic_write(qp, peer->rkey, peer->va + offset, prepared + offset);
		} else {
			ibv_wr_rdma_write(qp, peer->rkey, peer->va + offset);
			ibv_wr_set_sge(qp, source->lkey, (uintptr_t)prepared + offset, WRITE_LEN);
			start(2 * i + 1);
			if (operation == FLUSH_RANGE)
				ibv_wr_flush(qp, peer->rkey, peer->va + offset, WRITE_LEN, IBV_FLUSH_GLOBAL,
					     IBV_FLUSH_RANGE);
			else
				ibv_wr_flush(qp, peer->rkey, peer->va, 0, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR);
		}
		if (ibv_wr_complete(qp))
			die("posting");
		wait_for(operation == ATOMIC_WRITE || operation == COUNTER ? 1 : 2, names[operation]);
	}
	ibv_wr_start(qp);
	start(2 * count);
	ibv_wr_rdma_read(qp, peer->rkey, peer->va);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)region, SIZE);
	if (ibv_wr_complete(qp))
		die("posting a READ");
	wait_for(1, "READ");
	if (memcmp(region, prepared, SIZE))
		die("reading back what was written");
}

static int tcp(const char *server)
{
	int one = 1, line = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

	setsockopt(line, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (server) {
		if (inet_pton(AF_INET, server, &address.sin_addr) != 1 ||
		    connect(line, (struct sockaddr *)&address, sizeof address))
			die("connecting");
		return line;
	}
	if (bind(line, (struct sockaddr *)&address, sizeof address) || listen(line, 1))
		die("listening");
	return accept(line, NULL, NULL);
}

int main(int argc, char **argv)
{
	int option, operation = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((option = getopt(argc, argv, "d:x:p:m:n:u:r:")) != -1) {
		if (option == 'd') device_name = optarg;
		else if (option == 'x') gid_index = atoi(optarg);
		else if (option == 'p') port = atoi(optarg);
		else if (option == 'm') mtu = atoi(optarg);
		else if (option == 'n') count = strtoul(optarg, NULL, 10);
		else if (option == 'u') timeout = atoi(optarg);
		else if (option == 'r') retries = atoi(optarg);
		else die("reading the options");
	}
	if (optind == argc)
		die("naming an operation");
	while (operation < OPERATIONS && strcmp(argv[optind], names[operation]))
		operation++;
	if (operation == OPERATIONS)
		die("naming an operation");
	const char *server = argv[optind + 1];
	char done[5] = "done", last[5];

	open_device();
	int line = tcp(server);
	struct end ours = ourselves(), peer = meet(line, server != NULL, &ours);

	if (server)
		run(operation, &peer);
	swap_keys(line, server != NULL, &ours);
	swap(line, server != NULL, done, last, sizeof done);
	if (!server) {
		expect(operation, prepared);
		if (memcmp(region, prepared, SIZE))
			die("finding what the client wrote");
	}
	printf("%s: %u done\n", names[operation], count);
	return 0;
}
