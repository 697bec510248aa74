/* raw_client: the limit: plain sockets that do nothing but move bytes to or from limit_server.
 *
 * usage: raw_client upload|download PORT CONNECTIONS PARTS PART_BYTES
 *
 * Each connection runs on a thread of its own and takes the next part until there is none: PUTs of a part
 * out of one resident buffer, or ranged GETs read into one. No checksum, no signature, no disk. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK_BYTES ((size_t)1 << 20)

static bool upload;
static in_port_t port;
static unsigned parts;
static size_t part_bytes;
static atomic_uint next_part;

static void check(bool good, const char *what) {
  if (good)
    return;
  perror(what);
  exit(1);
}

static int connect_to_server(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int yes = 1;
  check(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return fd;
}

static void send_all(int fd, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
    check(sent > 0, "send");
    bytes += sent;
    size -= (size_t)sent;
  }
}

/* Reads the head of a reply; returns how many bytes of its body came along. */
static size_t read_head(int fd, const char *wanted) {
  char head[8192];
  size_t used = 0;
  for (;;) {
    ssize_t got = recv(fd, head + used, sizeof head - used, 0);
    check(got > 0, "recv");
    used += (size_t)got;
    const char *end = memmem(head, used, "\r\n\r\n", 4);
    if (end == NULL)
      continue;
    check(memmem(head, used, wanted, strlen(wanted)) != NULL, "the reply's status");
    return used - (size_t)(end + 4 - head);
  }
}

static void put_part(int fd, unsigned part, const char *buffer) {
  char head[256];
  int length = snprintf(head, sizeof head,
                        "PUT /bench/raw?partNumber=%u&uploadId=u HTTP/1.1\r\nHost: x\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        part + 1, part_bytes);
  send_all(fd, head, (size_t)length);
  for (size_t left = part_bytes; left > 0;) {
    size_t size = left < CHUNK_BYTES ? left : CHUNK_BYTES;
    send_all(fd, buffer, size);
    left -= size;
  }
  read_head(fd, " 200 ");
}

static void get_part(int fd, unsigned part, char *buffer) {
  char head[256];
  size_t begin = part * part_bytes;
  int length = snprintf(head, sizeof head, "GET /bench/raw HTTP/1.1\r\nHost: x\r\nRange: bytes=%zu-%zu\r\n\r\n", begin,
                        begin + part_bytes - 1);
  send_all(fd, head, (size_t)length);
  for (size_t left = part_bytes - read_head(fd, " 206 "); left > 0;) {
    ssize_t got = recv(fd, buffer, left < CHUNK_BYTES ? left : CHUNK_BYTES, 0);
    check(got > 0, "recv");
    left -= (size_t)got;
  }
}

static void *run_connection(void *ignored) {
  char *buffer = malloc(CHUNK_BYTES);
  check(buffer != NULL, "malloc");
  memset(buffer, 1, CHUNK_BYTES);
  int fd = connect_to_server();
  for (;;) {
    unsigned part = atomic_fetch_add(&next_part, 1);
    if (part >= parts)
      break;
    if (upload)
      put_part(fd, part, buffer);
    else
      get_part(fd, part, buffer);
  }
  close(fd);
  free(buffer);
  return ignored;
}

int main(int argc, char **argv) {
  if (argc != 6) {
    fputs("usage: raw_client upload|download PORT CONNECTIONS PARTS PART_BYTES\n", stderr);
    return 2;
  }
  upload = strcmp(argv[1], "upload") == 0;
  port = htons((in_port_t)strtoul(argv[2], NULL, 10));
  unsigned connections = (unsigned)strtoul(argv[3], NULL, 10);
  parts = (unsigned)strtoul(argv[4], NULL, 10);
  part_bytes = strtoull(argv[5], NULL, 10);
  pthread_t threads[64];
  check(connections >= 1 && connections <= 64, "connections");
  for (unsigned i = 0; i < connections; i++)
    check(pthread_create(&threads[i], NULL, run_connection, NULL) == 0, "a thread");
  for (unsigned i = 0; i < connections; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
