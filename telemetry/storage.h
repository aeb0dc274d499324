/* Bytes fetched from storage, as the kernel counts them: by this process (/proc/self/io,
 * read_bytes) and by all processes from the block device of a folder (/proc/diskstats). Neither
 * counts a read that the page cache serves. */
#pragma once

/* The block device of a folder. */
struct storage_meter {
    const char *proc; /* root of the tree to read */
    unsigned major, minor;
    char device[64]; /* name of the block device, "vda1"; "": the folder is not on a block device of
                      * this host, for example on a network mount */
};

/* `process`: bytes that this process has read since it began. `device`: bytes read from the device
 * since the host started. NaN: the kernel has no such counter, or the folder is not on a block
 * device. */
struct storage_bytes {
    double process, device;
};

/* Prepares a meter. `path`: the folder of the data; NULL: there is none. `proc`: folder to read in
 * place of /proc; NULL: /proc. */
void storage_open(struct storage_meter *m, const char *path, const char *proc);

/* Reads the counters. Opens files: not within a training step. */
struct storage_bytes storage_read(const struct storage_meter *m);

/* The bytes that were read between two calls. */
struct storage_bytes storage_since(const struct storage_meter *m, struct storage_bytes before);

/* Returns the percentage of `read` bytes that the page cache served, if `fetched` bytes came from
 * storage. Returns 0 if `fetched` exceeds `read`, as after read-ahead. NaN: `fetched` is not known,
 * or nothing was read. */
double storage_cached_percent(double fetched, double read);
