/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack.h - from a layer's archive to a directory, with confined processes
 *
 *	blob -> [decompress] -> us: SHA-256 of the plain tar -> [untar] -> directory
 *
 * The two in brackets parse untrusted bytes: each is a separate process in user, mount,
 * pid, network, ipc and uts namespaces, under the sandbox's system call filter, with no
 * descriptor but its streams; the root of the second is the new directory. The caller's
 * process only hashes and copies, so that the digest of the plain archive (the diff id)
 * does not come from a process that may be compromised.
 *
 * Ownership: run by root, the directory gets the ids of the archive on disk (an id-mapped
 * mount shows them to the untar process, which is an unprivileged user on the host). Run
 * by an ordinary user, everything belongs to that user; ids and set-id bits of the
 * archive are dropped. Files with an id that no sandbox has (65,536 and above) get the id
 * of the user nobody, without set-id bits.
 *
 * Refused are "..", names that lead through a file of the archive, hard links to files
 * that are not in it, and archives that are damaged or end in the middle of a member
 * (after the last byte of the last member they may end anywhere). Leading slashes are
 * dropped. A later entry replaces an earlier one, links included; on the way to an entry
 * the archive's links are followed as if the directory were "/" (unpack_name.c). Layers
 * below are not looked at. Devices, sockets and attributes other than user.* (without
 * user.overlay.*) and file capabilities are left out.
 *
 * The children are forks that use malloc: the caller must have one thread. They
 * have its memory, too, but for the environment: no secret should be in there that an
 * image must not see (unpack_spawner.h).
 * Layers have set-id files of root's: the directory must be in one that only root
 * can enter.
 */
#ifndef IMAGE_UNPACK_H
#define IMAGE_UNPACK_H

#include "base/error.h"
#include "image/ref.h"

enum unpack_limits {
	UNPACK_ENTRIES_MAX = 4000000, /* files in a layer */
};

/*
 * Called some ten times a second: whether the archive is no longer needed; then
 * -ECANCELED.
 */
struct unpack_watch {
	bool (*cancelled)(void *ctx);
	void *ctx;
};

struct unpack_result {
	char diff_id[REF_DIGEST_LEN + 1];
	uint64_t bytes;   /* of the plain archive */
	uint64_t entries; /* files, directories, links made */
	uint64_t skipped; /* device nodes, private attributes: left out */
	uint64_t
		remapped; /* files with ids that no sandbox has: now of the user nobody */
};

struct unpack_options {
	const char *diff_id; /* NULL: any; -EBADMSG when it is given and wrong */
	/*
	 * Translate whiteouts (".wh.x", ".wh..wh..opq") into what overlay with userxattr
	 * understands; else they are refused as names: a plain root filesystem has none.
	 */
	bool overlay;
	/*
	 * No one can change the file in the meantime. Then a plain archive needs no pipe:
	 * untar reads it while we hash it, and both read the same.
	 */
	bool settled;
	uint64_t max_bytes;               /* of the plain archive; -EFBIG */
	const struct unpack_watch *watch; /* NULL: nobody looks */
};

/*
 * Unpack the archive in @blob (gzip, zstd, xz, bzip2 or plain; read from its start)
 * into the empty directory @dir. After a failure, its contents are useless.
 */
int unpack_archive(int blob, int dir, const struct unpack_options *options,
		   struct unpack_result *ret, struct warren_error *err);

/*
 * Spool the members of an outer archive (docker save, OCI archive) in @archive
 * (a file or a pipe) into the empty directory @dir as regular files, by a
 * confined process: names must be relative, without "..", at most 8 deep;
 * directories are made, links between members are followed as copies or hard
 * links inside @dir, all else is refused.
 */
int unpack_spool(int archive, int dir, uint64_t max_bytes,
		 const struct unpack_watch *watch, struct warren_error *err);

#endif /* IMAGE_UNPACK_H */
