/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list.h - intrusive lists: each struct contains its links
 *
 *	struct job { struct job *next; ... } *jobs;
 *
 * A list is a pointer to its first item, and each item has a member `next`. A queue also
 * has a tail: a pointer to the `next` member that the next item is stored in:
 *
 *	struct queue { struct job *first, **tail; } q;
 *	QUEUE_INIT(&q.first, q.tail);
 *	QUEUE_PUT(q.tail, job);
 *	job = QUEUE_TAKE(q.first, q.tail);
 *
 * In a DLIST_*, each item also has `prev`, a pointer to the pointer that points to the
 * item, so that removing it is cheap. These are macros without a library, so that agents
 * can use them too.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

/* Insert @item at the front. */
#define LIST_PUSH(list, item)          \
	do {                           \
		(item)->next = (list); \
		(list) = (item);       \
	} while (0)

/* Insert @item at the end. */
#define LIST_APPEND(list, item)                    \
	do {                                       \
		__typeof__(&(list)) at_ = &(list); \
		while (*at_)                       \
			at_ = &(*at_)->next;       \
		(item)->next = NULL;               \
		*at_ = (item);                     \
	} while (0)

/* Remove and return the first item; NULL: the list is empty. */
#define LIST_POP(list)                          \
	__extension__({                         \
		__typeof__(list) pop_ = (list); \
		if (pop_)                       \
			(list) = pop_->next;    \
		pop_;                           \
	})

/*
 * Set @at to the pointer that points to the first item for which @cond holds, or to the
 * end. @cond refers to the item as *at.
 */
#define LIST_FIND(list, at, cond)                                             \
	do {                                                                  \
		for ((at) = &(list); *(at) && !(cond); (at) = &(*(at))->next) \
			;                                                     \
	} while (0)

/*
 * Remove @item; return whether it was in the list. LIST_REMOVE_BY() uses the member @link
 * instead of `next`.
 */
#define LIST_REMOVE_BY(list, item, link)           \
	__extension__({                            \
		__typeof__(&(list)) at_ = &(list); \
		__typeof__(list) item_ = (item);   \
		_Bool found_;                      \
		while (*at_ && *at_ != item_)      \
			at_ = &(*at_)->link;       \
		found_ = *at_ != NULL;             \
		if (found_)                        \
			*at_ = item_->link;        \
		found_;                            \
	})
#define LIST_REMOVE(list, item) LIST_REMOVE_BY(list, item, next)

/* ------------------------------------------------------------------- with a tail */

#define QUEUE_INIT(first, tail) ((first) = NULL, (tail) = &(first))

#define QUEUE_PUT(tail, item)           \
	do {                            \
		(item)->next = NULL;    \
		*(tail) = (item);       \
		(tail) = &(item)->next; \
	} while (0)

#define QUEUE_TAKE(first, tail)                    \
	__extension__({                            \
		__typeof__(first) took_ = (first); \
		if (took_)                         \
			(first) = took_->next;     \
		if (!(first))                      \
			(tail) = &(first);         \
		took_;                             \
	})

/* Remove and return the item that LIST_FIND() found; NULL: it found none. */
#define QUEUE_CUT(tail, at)                     \
	__extension__({                         \
		__typeof__(*(at)) cut_ = *(at); \
		if (cut_) {                     \
			*(at) = cut_->next;     \
			if (!*(at))             \
				(tail) = (at);  \
		}                               \
		cut_;                           \
	})

/* ---------------------------------------- with a place that points to each item: prev */

#define DLIST_PUSH_BY(list, item, next_, prev_)                \
	do {                                                   \
		(item)->next_ = (list);                        \
		(item)->prev_ = &(list);                       \
		if ((item)->next_)                             \
			(item)->next_->prev_ = &(item)->next_; \
		(list) = (item);                               \
	} while (0)
#define DLIST_PUSH(list, item) DLIST_PUSH_BY(list, item, next, prev)

/* Remove @item from its list without a search. Afterwards its prev is NULL. */
#define DLIST_REMOVE_BY(item, next_, prev_)                   \
	do {                                                  \
		*(item)->prev_ = (item)->next_;               \
		if ((item)->next_)                            \
			(item)->next_->prev_ = (item)->prev_; \
		(item)->next_ = NULL;                         \
		(item)->prev_ = NULL;                         \
	} while (0)
#define DLIST_REMOVE(item) DLIST_REMOVE_BY(item, next, prev)

/* Insert @item at the end of such a list that also has a tail. */
#define DQUEUE_PUT_BY(tail, item, next_, prev_) \
	do {                                    \
		(item)->next_ = NULL;           \
		(item)->prev_ = (tail);         \
		*(tail) = (item);               \
		(tail) = &(item)->next_;        \
	} while (0)

#define DQUEUE_REMOVE_BY(tail, item, next_, prev_)   \
	do {                                         \
		if ((tail) == &(item)->next_)        \
			(tail) = (item)->prev_;      \
		DLIST_REMOVE_BY(item, next_, prev_); \
	} while (0)

#endif /* BASE_LIST_H */
