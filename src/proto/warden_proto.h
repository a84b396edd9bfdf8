/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warden_proto.h - requests from the api process to the warden, and their replies
 *
 * There is one SOCK_SEQPACKET connection. Each message is one struct, with descriptors.
 * The api process parses untrusted input, so the warden does not trust it. A request must
 * be in the table in warden.c, and warden_proto_check() checks its size and strings. The
 * warden checks it again against its own configuration. Replies may arrive in a different
 * order from requests; `seq` says which request a reply belongs to.
 */
#ifndef PROTO_WARDEN_PROTO_H
#define PROTO_WARDEN_PROTO_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "spec/limits.h"

#define WIRE_MESSAGE_MAX  131072
#define WIRE_ENV_MAX      1024
#define WIRE_MOUNTS_MAX   64
#define WIRE_BACKEND_SIZE 32

/*
 * The backend that carries out requests at once. The other backends run programs, which
 * may take long.
 */
#define WIRE_NATIVE "native"

/* The image name for a sandbox whose backend offers no choice of images. */
#define WIRE_NO_IMAGE "none"

/* The error of CONNECT for a sandbox that has no init, but saved files. */
#define WIRE_HIBERNATES ENODATA
/* The error of TRUST if files or processes in the sandbox are the reason. */
#define WIRE_FILES_INSIDE EILSEQ

/* The error of SNAPSHOT if the sandbox could not be resumed, and is paused. */
#define WIRE_LEFT_PAUSED ESTRPIPE

enum warden_proto_type {
	/*
	 * struct warden_proto_create; reply: connection, description. With
	 * WARREN_NETWORK_CAPTURED, the descriptor is a bundle of WIRE_CREATE_FDS: the
	 * connection, and the sockets of warren_capture_network().
	 */
	WIRE_CREATE = 1,
	WIRE_CONNECT,    /* struct warden_proto_sandbox; reply: connection, description */
	WIRE_DESTROY,    /* struct warden_proto_sandbox */
	WIRE_PAUSE,      /* struct warden_proto_sandbox */
	WIRE_CHECKPOINT, /* struct warden_proto_sandbox */
	WIRE_RESUME,     /* struct warden_proto_sandbox */
	WIRE_STATS,   /* struct warden_proto_sandbox; reply: struct warden_proto_stats */
	WIRE_UPDATE,  /* struct warden_proto_update */
	WIRE_LIST,    /* struct warden_proto_list; reply: ids, NUL-terminated */
	WIRE_IMAGE,   /* struct warden_proto_image; reply: a pipe with its report */
	WIRE_PROBE,   /* struct warden_proto_header; reply: JSON */
	WIRE_HEALTH,  /* struct warden_proto_header; reply: nothing */
	WIRE_CAPTURE, /* struct warden_proto_sandbox; reply: a bundle of its sockets */
	WIRE_EGRESS,  /* struct warden_proto_header; reply: a connection to it */
	WIRE_VOLUME,  /* struct warden_proto_volume; reply: see the verb */
	WIRE_HIBERNATE, /* struct warden_proto_sandbox */
	/*
	 * struct warden_proto_sandbox: let the sandbox trust the authority of
	 * warren-egress, with warren_trust().
	 */
	WIRE_TRUST,
	WIRE_DIFF,        /* struct warden_proto_diff; reply: a file, the result */
	WIRE_UNDO_KEEP,   /* struct warden_proto_sandbox; reply: struct warren_saved */
	WIRE_UNDO,        /* struct warden_proto_sandbox; reply: struct warren_undone */
	WIRE_UNDO_FORGET, /* struct warden_proto_sandbox */
	/*
	 * struct warden_proto_snapshot; reply, when the files are copied: a pipe with the
	 * report of warren-image
	 */
	WIRE_SNAPSHOT,
	WIRE_RESET, /* struct warden_proto_sandbox; HIBERNATE, but without its files */
	/*
	 * struct warden_proto_cancel: end the request of the same connection that has
	 * this number, if it can be cancelled; it is answered with ECANCELED. This
	 * request is always answered with success.
	 */
	WIRE_CANCEL,
	/* struct warden_proto_sandbox: warren_undo_settle(), started or not */
	WIRE_UNDO_STARTED,
	WIRE_UNDO_BACK,
	WIRE_LIST_KEPT, /* like LIST: the sandboxes with `persist` that have files */
	WIRE_WORK,      /* struct warden_proto_work; reply: see there */
	WIRE_TYPE_MAX,
	WIRE_REPLY = 64,
	/* Sent without a request: struct warden_proto_pool. */
	WIRE_STOCK,
};

struct warden_proto_header {
	uint32_t type;
	uint32_t seq;
	/* In a request: the backend's name in the configuration, NUL-padded. */
	char backend[WIRE_BACKEND_SIZE];
	uint32_t share; /* in a request: number of the tenant, for fair use of threads */
	uint32_t pad;
};

struct warden_proto_sandbox {
	struct warden_proto_header h;
	char id[16]; /* see base/id.h; NUL-padded */
};

/*
 * List at most WIRE_LIST_MAX ids that are greater than @after, in ascending order. If the
 * reply has fewer ids, there are no more.
 */
#define WIRE_LIST_MAX 4096

struct warden_proto_list {
	struct warden_proto_header h;
	char after[16]; /* "": from the first one */
};

struct warden_proto_update {
	struct warden_proto_header h;
	char id[16];
	uint64_t limits[SPEC_LIVE_MAX]; /* 0: unchanged */
};

/*
 * Compare the sandbox with its image, or with the image @image, which is an id. The reply
 * has a file with records of the type struct warren_change, and a struct
 * warden_proto_changes. Can be cancelled.
 */
#define WIRE_DIFF_MAX     20000
#define WIRE_DIFF_SECONDS 120

struct warden_proto_diff {
	struct warden_proto_header h;
	char id[16];
	uint64_t skip;
	uint64_t max;     /* at most WIRE_DIFF_MAX */
	uint64_t seconds; /* time after which to give up; at most WIRE_DIFF_SECONDS */
	char image[80];   /* "": the sandbox's own */
};

struct warden_proto_changes {
	uint64_t n;
	uint32_t more;     /* 1: there are more changes after these */
	uint32_t too_deep; /* 1: see struct warren_diff */
};

struct warden_proto_cancel {
	struct warden_proto_header h;
	uint32_t request; /* h.seq of the request */
	uint32_t pad;
};

struct warden_proto_stats {
	struct warren_stats is;
	/* 1: OOM kills in ended execs are missing here; init reports them. */
	uint64_t kills_apart;
};

/* Flags of a mount. */
#define WIRE_READ_ONLY     (1U << 0)
#define WIRE_TMPFS         (1U << 1) /* a tmpfs, which has no source */
#define WIRE_MOUNTS_VOLUME (1U << 2) /* the source is the id of a volume */

struct warden_proto_mount {
	uint32_t flags;
	uint32_t pad;
	uint64_t size;
};

#define WIRE_CREATE_FDS (1 + WARREN_CAPTURE_FDS)

struct warden_proto_create {
	struct warden_proto_header h;
	char id[16];
	uint64_t limits[SPEC_LIMIT_MAX];
	uint32_t network; /* enum warren_network */
	uint32_t flags;   /* spec_field.wire_bit */
	uint32_t n_env, n_mounts;
	uint32_t strings_size;
	uint32_t soft_limits; /* WARREN_LIMIT_* */
	struct warden_proto_mount mounts[WIRE_MOUNTS_MAX];
	/*
	 * The texts of spec_fields[] (each "" for the default), then the environment,
	 * then source and target of each mount, all NUL-terminated, back to back.
	 */
	char strings[];
};

struct warden_proto_snapshot {
	struct warden_proto_header h;
	char id[16];
	char snapshot[16]; /* the id of the new snapshot */
};

enum warden_proto_image_verb {
	WIRE_IMAGE_PULL,
	WIRE_IMAGE_LS,
	WIRE_IMAGE_INSPECT,
	WIRE_IMAGE_RM,
	WIRE_IMAGE_TAG,  /* `ref` gets the name `to` */
	WIRE_IMAGE_PUSH, /* `ref` to the registry, as `to` */
	/* Reply: a bundle of WIRE_IMAGE_FDS: the report, and a pipe with an archive. */
	WIRE_IMAGE_SAVE, /* the archive of `ref` */
	WIRE_IMAGE_LOAD, /* the pipe is to write to */
	/* The pipe is to write to: a request and a context (cli/image/build_request.h).
	 */
	WIRE_IMAGE_BUILD,
	WIRE_IMAGE_TRIM, /* remove cached steps of builds if the disk is nearly full */
	WIRE_IMAGE_MAX,
};

#define WIRE_IMAGE_FDS 2

#define WIRE_IMAGE_MISSING (1U << 0) /* pull: only if it is missing */
#define WIRE_IMAGE_FORCE   (1U << 1) /* remove: with all its names */
#define WIRE_IMAGE_OURS    (1U << 2) /* the service names one of its snapshots */

struct warden_proto_image {
	struct warden_proto_header h;
	uint32_t verb;
	uint32_t flags;
	char ref[512];
	char platform[64];
	char to[512]; /* a second name; "": none */
};

enum warden_proto_work_verb {
	WIRE_WORK_LIST, /* at most `limit` works with an id greater than `after` */
	WIRE_WORK_SHOW,
	WIRE_WORK_CHANGES,
	WIRE_WORK_DIFF,
	WIRE_WORK_ACCEPT,
	WIRE_WORK_REJECT,
	WIRE_WORK_REMOVE,
	WIRE_WORK_MAX,
};

#define WIRE_WORK_IGNORED (1U << 0) /* also files that .gitignore ignores */
#define WIRE_WORK_PATCH   (1U << 1) /* the input is a patch */
#define WIRE_WORK_PATHS   (1U << 2) /* the input is paths; each ends with a NUL byte */

#define WIRE_WORK_INPUT_MAX (64U << 20)
#define WIRE_WORK_LIST_MAX  1000

/* X(word): changes that need permission; the bits of `allow`, in this order. */
#define WIRE_WORK_ALLOW(X) X("git") X("set-id") X("link") X("hidden")
#define WIRE_WORK_ALLOW_N  4
/* X(word): what to do with conflicts; the values of `conflicts`, in this order. */
#define WIRE_WORK_CONFLICTS(X) X("stop") X("skip") X("markers") X("theirs")
#define WIRE_WORK_CONFLICTS_N  4

/*
 * Start warren-work for a client. The reply has a pipe with its answer
 * (cli/work/request.h); if there is input, a bundle of WIRE_WORK_FDS: this pipe, and one
 * to write `input` bytes to.
 */
#define WIRE_WORK_FDS 2

struct warden_proto_work {
	struct warden_proto_header h;
	uint32_t verb;
	uint32_t flags;
	uint32_t allow;
	uint32_t conflicts;
	uint32_t input; /* bytes; 0: none */
	uint32_t limit;
	char after[16]; /* "": from the first one */
	char work[80];  /* an id, the beginning of an id, or a name */
};

enum warden_proto_volume_verb {
	WIRE_VOLUME_CREATE, /* of `size` bytes */
	WIRE_VOLUME_COPY,   /* a copy of the volume `from` */
	WIRE_VOLUME_DELETE,
	WIRE_VOLUME_USAGE, /* reply: struct warden_proto_volume_usage */
	/* The others are about the file at `path` in the volume. */
	WIRE_VOLUME_STAT, /* reply: one entry, see proto_next() */
	WIRE_VOLUME_LIST, /* reply: a file with entries */
	WIRE_VOLUME_READ, /* reply: the file, open for reading */
	/*
	 * reply: a new file without a name, open for writing, and its struct
	 * warden_proto_volume_new
	 */
	WIRE_VOLUME_WRITE,
	/* `new`, which must still be open, gets this name; reply: as for STAT */
	WIRE_VOLUME_PLACE,
	WIRE_VOLUME_MKDIR,
	WIRE_VOLUME_REMOVE,
	WIRE_VOLUME_SYMLINK, /* to `link`; reply: as for STAT */
	WIRE_VOLUME_CHANGE,  /* its owner and mode, see the flags; reply: as for STAT */
	WIRE_VOLUME_VERB_MAX,
};

#define WIRE_VOLUME_PARENTS   (1U << 0) /* create missing directories */
#define WIRE_VOLUME_RECURSIVE (1U << 1) /* remove: with everything in it */
#define WIRE_VOLUME_FOLLOW    (1U << 2) /* stat: follow a link at the end */
#define WIRE_VOLUME_SET_UID   (1U << 3) /* also that of an existing file */
#define WIRE_VOLUME_SET_GID   (1U << 4)
#define WIRE_VOLUME_SET_MODE  (1U << 5)
/* Each entry in the reply is followed by a struct warden_proto_volume_more. */
#define WIRE_VOLUME_MORE       (1U << 6)
#define WIRE_VOLUME_FLAGS      ((1U << 7) - 1)
#define WIRE_VOLUME_DEPTH_MAX  256
#define WIRE_VOLUME_HANDLE_MAX 64

/* A file of a volume that has no name yet, see name_to_handle_at(2). */
struct warden_proto_volume_new {
	int32_t type;
	uint32_t size;
	unsigned char bytes[WIRE_VOLUME_HANDLE_MAX];
};

struct warden_proto_volume {
	struct warden_proto_header h;
	char id[16];
	uint32_t verb;
	uint32_t flags;
	uint64_t size;
	uint32_t mode;     /* of a new file or directory, if it does not exist */
	uint32_t uid, gid; /* the same */
	uint32_t max;      /* list: the maximum number of entries */
	/*
	 * list: levels of directories below the first one. If there are any, a reply that
	 * would exceed the maximum is an error (E2BIG).
	 */
	uint32_t depth;
	uint32_t pad;
	char from[16];
	/* What replaces another file has this name for a moment, in the same directory.
	 */
	char name[64];
	struct warden_proto_volume_new new;
	char path[4096];
	char link[4096];
};

struct warden_proto_volume_more {
	int64_t atime_sec, ctime_sec;
	uint32_t atime_nsec, ctime_nsec;
	/* How far below the directory of a list; follows the entry of its directory. */
	uint32_t depth;
	uint32_t pad;
};

struct warden_proto_volume_usage {
	uint64_t size; /* bytes of the filesystem */
	uint64_t disk; /* bytes that it occupies on the disk of this machine */
};

struct warden_proto_reply {
	struct warden_proto_header h;
	struct warren_error err; /* code 0: success */
	uint32_t size, pad;      /* size of the data */
	char data[];
};

/*
 * The ids of sandboxes that were prepared in advance: a CREATE request with one of these
 * ids uses that sandbox. The ids follow, 16 bytes each.
 */
#define WIRE_STOCK_MAX 64

struct warden_proto_pool {
	struct warden_proto_header h;
	uint16_t n;
	uint16_t all;  /* 1: this replaces all ids sent before */
	uint32_t want; /* target number of prepared sandboxes */
};

/*
 * Check that @data of @size bytes is a complete request with valid strings. 0 or -EPROTO.
 */
int warden_proto_check(const void *data, size_t size);
/* Get the sandbox of a checked request; NULL: none. */
const char *warden_proto_id(const void *data);
/* Set the backend; -ENAMETOOLONG: no backend has such a name. */
int warden_proto_put_backend(struct warden_proto_header *h, const char *name);
/* Set the number of the tenant, the same for all of its requests. */
void warden_proto_put_tenant(struct warden_proto_header *h, const char *tenant);

/* Write and read a CREATE request. */
struct warren_spec;
struct buf;
/* Write a CREATE request. -E2BIG: the spec does not fit into a message. */
int warden_proto_put_create(struct buf *out, const char *backend, const char *id,
			    const struct warren_spec *spec);
/*
 * Get the spec of a checked message. Its strings point into the message; its arrays are
 * @env (WIRE_ENV_MAX + 1) and @mounts (WIRE_MOUNTS_MAX).
 */
struct warren_mount;
void warden_proto_get_create(const struct warden_proto_create *msg,
			     struct warren_spec *spec, const char **env,
			     struct warren_mount *mounts);

#endif /* PROTO_WARDEN_PROTO_H */
