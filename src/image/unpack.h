/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack.h - unpack a layer's archive into a directory, in confined processes
 *
 *	blob -> [decompress] -> us: SHA-256 of the plain tar -> [untar] -> directory
 *
 * The two steps in brackets parse untrusted bytes. Each is a separate process in user,
 * mount, pid, network, ipc and uts namespaces, under the sandbox's system call filter,
 * with no descriptors except its streams. The root of the second one is the new
 * directory. The caller's process only hashes and copies, so that the digest of the plain
 * archive (the diff id) does not come from a process that may be compromised.
 *
 * Ownership: if root runs it, files on disk get the ids of the archive (through an
 * id-mapped mount for the untar process, which is an unprivileged user on the host). If
 * an ordinary user runs it, everything belongs to that user; ids and set-id bits of the
 * archive are dropped. Files with an id that no sandbox has (65,536 and above) get the id
 * of the user `nobody`, without set-id bits.
 *
 * It refuses "..", names that lead through a file of the archive, hard links to files
 * outside the archive, and archives that are damaged or end within a member. After the
 * data of the last member, an archive may end anywhere. Leading slashes are dropped. A
 * later entry replaces an earlier one, including links. In the path of an entry, links of
 * the archive are followed as if the directory were "/" (unpack_name.c). Lower layers are
 * not consulted. Devices, sockets and attributes other than user.* (without
 * user.overlay.*) and file capabilities are skipped.
 *
 * The children are forked and use malloc, so the caller must have only one thread. They
 * also have a copy of its memory, except for the environment, so it should contain no
 * secrets (unpack_spawner.h). Layers contain set-id files of root, so the directory must
 * be inside a directory that only root can enter.
 */
#ifndef IMAGE_UNPACK_H
#define IMAGE_UNPACK_H

#include "base/error.h"
#include "image/ref.h"

enum unpack_limits {
	UNPACK_ENTRIES_MAX = 4000000, /* maximum number of files in a layer */
};

/* Called about ten times a second. If it returns true, unpacking ends with -ECANCELED. */
struct unpack_watch {
	bool (*cancelled)(void *ctx);
	void *ctx;
};

struct unpack_result {
	char diff_id[REF_DIGEST_LEN + 1];
	uint64_t bytes;    /* size of the uncompressed archive */
	uint64_t entries;  /* files, directories and links created */
	uint64_t skipped;  /* device nodes and private attributes that were skipped */
	uint64_t remapped; /* files whose ids no sandbox has: owned by user `nobody` */
};

struct unpack_options {
	const char *diff_id; /* expected diff id (-EBADMSG if it differs); NULL: any */
	/*
	 * Translate whiteouts (".wh.x", ".wh..wh..opq") for overlay with userxattr.
	 * Otherwise such names are refused, because a plain root filesystem has none.
	 */
	bool overlay;
	/*
	 * No other process can change the file. An uncompressed archive then needs no
	 * pipe: the untar process reads it while the caller hashes it, and both read the
	 * same bytes.
	 */
	bool settled;
	uint64_t max_bytes; /* maximum size of the uncompressed archive; -EFBIG */
	const struct unpack_watch *watch; /* NULL: cannot be cancelled */
};

/*
 * Unpack the archive in @blob (gzip, zstd, xz, bzip2 or plain; read from its start) into
 * the empty directory @dir. After a failure, the contents of @dir must not be used.
 */
int unpack_archive(int blob, int dir, const struct unpack_options *options,
		   struct unpack_result *ret, struct warren_error *err);

/*
 * Unpack the members of an outer archive (docker save, OCI archive) in @archive (a file
 * or a pipe) into the empty directory @dir as regular files, in a confined process. Names
 * must be relative, without "..", at most 8 levels deep. Directories are created, and
 * links between members become copies or hard links inside @dir. Everything else is
 * refused.
 */
int unpack_spool(int archive, int dir, uint64_t max_bytes,
		 const struct unpack_watch *watch, struct warren_error *err);

#endif /* IMAGE_UNPACK_H */
