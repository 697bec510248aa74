/* limit_server: as little of S3 as a save and a load need, at no cost: what is uploaded in parts is read
 * and dropped, and what is downloaded is made up. It shows what a client can do when the store is free.
 *
 * usage: limit_server BLOCK_FILE     prints its port, serves until it is killed
 *
 * Small objects (records, manifests) are kept. Of a large one the length is kept, and its bytes are those
 * of BLOCK_FILE, repeated: upload such a file, and what is downloaded has the checksums that were saved.
 * One thread a connection. Signatures are not looked at. On 127.0.0.1 alone. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_MAX 16384
#define DROP_BYTES ((size_t)1 << 20) /* of one read */
#define KEPT_MAX ((size_t)4 << 20)

struct object {
  struct object *next;
  char *path;
  char *bytes; /* NULL: made up */
  size_t size;
};

static const char *block;
static size_t block_bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects; /* under the lock; never removed */

struct request {
  int fd;
  char head[HEAD_MAX];
  char *rest; /* what came of the body with the head */
  size_t rest_bytes;
  char method[8];
  char path[4096];
  char query[1024];
  size_t length;
};

static void *must(void *made) {
  if (made == NULL) {
    perror("limit_server");
    exit(1);
  }
  return made;
}

/* ---- objects ---- */

/* Under the lock. */
static struct object *find(const char *path) {
  for (struct object *object = objects; object != NULL; object = object->next)
    if (strcmp(object->path, path) == 0)
      return object;
  return NULL;
}

static struct object *find_or_add(const char *path) {
  struct object *object = find(path);
  if (object != NULL)
    return object;
  object = must(calloc(1, sizeof *object));
  object->path = must(strdup(path));
  object->next = objects;
  objects = object;
  return object;
}

/* ---- bytes ---- */

static bool send_all(int fd, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return false;
    bytes += sent;
    size -= (size_t)sent;
  }
  return true;
}

__attribute__((format(printf, 2, 3))) static bool reply(int fd, const char *format, ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return send_all(fd, text, (size_t)length);
}

static bool drop_body(struct request *request) {
  size_t left = request->length - request->rest_bytes;
  char *buffer = must(malloc(DROP_BYTES));
  while (left > 0) {
    ssize_t got = recv(request->fd, buffer, left < DROP_BYTES ? left : DROP_BYTES, 0);
    if (got <= 0)
      break;
    left -= (size_t)got;
  }
  free(buffer);
  return left == 0;
}

static char *keep_body(struct request *request) {
  char *body = must(malloc(request->length + 1));
  memcpy(body, request->rest, request->rest_bytes);
  for (size_t used = request->rest_bytes; used < request->length;) {
    ssize_t got = recv(request->fd, body + used, request->length - used, 0);
    if (got <= 0) {
      free(body);
      return NULL;
    }
    used += (size_t)got;
  }
  return body;
}

/* ---- operations ---- */

static const char part_reply[] = "HTTP/1.1 200 OK\r\nETag: \"part\"\r\nContent-Length: 0\r\n\r\n";

static bool put_part(struct request *request) {
  if (!drop_body(request))
    return false;
  pthread_mutex_lock(&lock);
  find_or_add(request->path)->size += request->length;
  pthread_mutex_unlock(&lock);
  return send_all(request->fd, part_reply, sizeof part_reply - 1);
}

static bool put_object(struct request *request) {
  bool kept = request->length <= KEPT_MAX;
  char *body = kept ? keep_body(request) : NULL;
  if (kept ? body == NULL : !drop_body(request))
    return false;
  pthread_mutex_lock(&lock);
  struct object *object = find_or_add(request->path);
  free(object->bytes);
  object->bytes = body;
  object->size = request->length;
  pthread_mutex_unlock(&lock);
  return send_all(request->fd, part_reply, sizeof part_reply - 1);
}

static bool reply_xml(int fd, const char *xml) {
  return reply(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: %zu\r\n\r\n%s", strlen(xml),
               xml);
}

static bool post(struct request *request) {
  if (!drop_body(request))
    return false;
  if (strstr(request->query, "uploads") == NULL)
    return reply_xml(request->fd, "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag>"
                                  "</CompleteMultipartUploadResult>");
  pthread_mutex_lock(&lock);
  struct object *object = find_or_add(request->path);
  free(object->bytes);
  object->bytes = NULL;
  object->size = 0;
  pthread_mutex_unlock(&lock);
  return reply_xml(request->fd, "<InitiateMultipartUploadResult><UploadId>u</UploadId>"
                                "</InitiateMultipartUploadResult>");
}

static bool send_range(const struct request *request, const struct object *object, size_t begin, size_t size) {
  if (object->bytes != NULL)
    return send_all(request->fd, object->bytes + begin, size);
  while (size > 0) {
    size_t at = begin % block_bytes;
    size_t length = size < block_bytes - at ? size : block_bytes - at;
    if (!send_all(request->fd, block + at, length))
      return false;
    begin += length;
    size -= length;
  }
  return true;
}

/* "5-9"; what is missing stays as it is. */
static void parse_range(const char *text, size_t *begin, size_t *end) {
  char *after = NULL;
  *begin = strtoull(text, &after, 10);
  if (*after == '-' && after[1] >= '0' && after[1] <= '9')
    *end = strtoull(after + 1, NULL, 10);
}

static bool get(struct request *request) {
  pthread_mutex_lock(&lock);
  struct object *object = find(request->path);
  pthread_mutex_unlock(&lock);
  if (object == NULL) {
    static const char xml[] = "<Error><Code>NoSuchKey</Code><Message>absent</Message></Error>";
    return reply(request->fd, "HTTP/1.1 404 Not Found\r\nContent-Length: %zu\r\n\r\n%s", sizeof xml - 1,
                 strcmp(request->method, "HEAD") == 0 ? "" : xml);
  }
  size_t begin = 0;
  size_t end = object->size - 1;
  const char *range = strcasestr(request->head, "\r\nrange: bytes=");
  if (range != NULL)
    parse_range(range + strlen("\r\nrange: bytes="), &begin, &end);
  end = end < object->size ? end : object->size - 1;
  size_t size = object->size == 0 ? 0 : end + 1 - begin;
  if (!reply(request->fd,
             "HTTP/1.1 %s\r\nETag: \"whole\"\r\nContent-Length: %zu\r\n"
             "Content-Range: bytes %zu-%zu/%zu\r\n\r\n",
             range != NULL ? "206 Partial Content" : "200 OK", size, begin, end, object->size))
    return false;
  return strcmp(request->method, "HEAD") == 0 || send_range(request, object, begin, size);
}

static bool serve(struct request *request) {
  if (strcmp(request->method, "PUT") == 0)
    return strstr(request->query, "partNumber") != NULL ? put_part(request) : put_object(request);
  if (strcmp(request->method, "POST") == 0)
    return post(request);
  if (strcmp(request->method, "DELETE") == 0)
    return reply(request->fd, "HTTP/1.1 204 No Content\r\n\r\n");
  return get(request);
}

/* ---- connections ---- */

static bool read_head(struct request *request) {
  size_t used = 0;
  for (;;) {
    ssize_t got = recv(request->fd, request->head + used, sizeof request->head - 1 - used, 0);
    if (got <= 0)
      return false;
    used += (size_t)got;
    request->head[used] = '\0';
    char *end = memmem(request->head, used, "\r\n\r\n", 4);
    if (end == NULL)
      continue;
    request->rest = end + 4;
    request->rest_bytes = used - (size_t)(request->rest - request->head);
    end[2] = '\0';
    break;
  }
  char target[3072];
  if (sscanf(request->head, "%7s %3071s", request->method, target) != 2)
    return false;
  char *query = strchr(target, '?');
  snprintf(request->query, sizeof request->query, "%s", query != NULL ? query + 1 : "");
  if (query != NULL)
    *query = '\0';
  snprintf(request->path, sizeof request->path, "%s", target);
  const char *length = strcasestr(request->head, "\r\ncontent-length:");
  request->length = length != NULL ? strtoull(length + strlen("\r\ncontent-length:"), NULL, 10) : 0;
  return true;
}

static void *run_connection(void *argument) {
  struct request *request = argument;
  while (read_head(request) && serve(request))
    continue;
  close(request->fd);
  free(request);
  return NULL;
}

static int listen_somewhere(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 64) != 0 ||
      getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
    perror("limit_server");
    exit(1);
  }
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  return fd;
}

static void map_block(const char *path) {
  struct stat info;
  int fd = open(path, O_RDONLY);
  if (fd < 0 || fstat(fd, &info) != 0) {
    perror(path);
    exit(1);
  }
  block_bytes = (size_t)info.st_size;
  block = mmap(NULL, block_bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
  if (block == MAP_FAILED)
    must(NULL);
  close(fd);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fputs("usage: limit_server BLOCK_FILE\n", stderr);
    return 2;
  }
  map_block(argv[1]);
  int listener = listen_somewhere();
  for (;;) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
      continue;
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    struct request *request = must(calloc(1, sizeof *request));
    request->fd = fd;
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_connection, request) != 0)
      must(NULL);
    pthread_detach(thread);
  }
}
