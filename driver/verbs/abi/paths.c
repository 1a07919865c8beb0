// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * libferrowire_paths.so: paths that programs ask of the kernel about a card of this project. `ferrowire run` preloads it.
 *
 * A device of libibverbs has a character device and a folder in sysfs, and some programs ask for these
 * rather than for libibverbs: UCX leaves a device out whose /dev/infiniband/uverbsN it cannot open, and
 * takes RoCE v1 for a GID without a file of its type. A card that is driven by a program has neither.
 *
 *   stat, access of /dev/infiniband/uverbsN           a character device that may be read and written
 *   open of /sys/class/infiniband/ferrowireN/ports/1/gid_attrs/types/I      "RoCE v2"
 *
 * Other paths, and these where the kernel has them, are the kernel's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* Functions have the same arguments in both sizes of off_t where off_t has 64 bits. */
_Static_assert(sizeof(off_t) == 8, "64-bit files");

/* The rest of a path after a prefix, or null. */
static const char *after(const char *path, const char *prefix)
{
	size_t length = strlen(prefix);
	return strncmp(path, prefix, length) ? 0 : path + length;
}

/* What follows a decimal number, or null if there is none. */
static const char *after_number(const char *text)
{
	const char *at = text;
	if (!text)
		return 0;
	while (*at >= '0' && *at <= '9')
		at++;
	return at == text ? 0 : at;
}

/* Whether a path is the character device of a card. */
static int is_device(const char *path)
{
	const char *rest = path ? after(path, "/dev/infiniband/uverbs") : 0;
	rest = after_number(rest);
	return rest && !*rest;
}

/* What a file of sysfs of a card has, or null. */
static const char *content(const char *path)
{
	const char *rest = path ? after(path, "/sys/class/infiniband/ferrowire") : 0;
	rest = after_number(rest);
	rest = rest ? after(rest, "/ports/1/gid_attrs/types/") : 0;
	rest = after_number(rest);
	return rest && !*rest ? "RoCE v2\n" : 0;
}

/* A file with a text, at its beginning; -1 if there is none. */
static int file_of(const char *text)
{
	int file = memfd_create("ferrowire", MFD_CLOEXEC);
	size_t length = strlen(text);
	if (file < 0)
		return -1;
	if (write(file, text, length) != (ssize_t)length || lseek(file, 0, SEEK_SET)) {
		close(file);
		errno = EIO;
		return -1;
	}
	return file;
}

/* The next library's function of a name. */
#define NEXT(name) \
	static __typeof__(name) *next; \
	if (!next) \
		next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* A device is like /dev/null, which each process may read and write. */
#define DEVICE "/dev/null"

#define STAT(name, type) \
	int name(const char *path, struct type *status) \
	{ \
		NEXT(name); \
		int done = next(path, status); \
		return done && errno == ENOENT && is_device(path) ? next(DEVICE, status) : done; \
	}

STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

int access(const char *path, int mode)
{
	NEXT(access);
	int done = next(path, mode);
	return done && errno == ENOENT && is_device(path) ? next(DEVICE, mode) : done;
}

/* Files are opened for reading only, so that a mode is not looked at. */
#define OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		NEXT(name); \
		va_list more; \
		va_start(more, flags); \
		mode_t mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0; \
		va_end(more); \
		int file = next(path, flags, mode); \
		const char *text = file < 0 && errno == ENOENT && (flags & O_ACCMODE) == O_RDONLY ? content(path) : 0; \
		return text ? file_of(text) : file; \
	}

OPEN(open)
OPEN(open64)
