/* SPDX-License-Identifier: Apache-2.0 */
/* unserved.c - operations of the description that this service does not serve: 501 */
#include "api/v1/v1.h"

#define UNSERVED(name)                                                            \
	void v1_##name(struct call *c)                                            \
	{                                                                         \
		call_refuse(c, API_ERR_NOT_SUPPORTED,                             \
			    "%s is not served by this service", c->route.op->id); \
	}

<<<<<<< HEAD
UNSERVED(download_tar)
UNSERVED(upload_tar)
UNSERVED(watch_files)
UNSERVED(search_files)
=======
UNSERVED(open_terminal)
UNSERVED(join_terminal)
UNSERVED(list_images)
UNSERVED(remove_image)
UNSERVED(inspect_image)
UNSERVED(pull_image)
>>>>>>> b1f4c23 (service, api: tar up and down, search and watch for files of a sandbox)
