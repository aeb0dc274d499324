/* A split of a data set in tar archives ("shards"), whose images are read in place.
 *
 * The class of an image is the first of these that applies to the whole split:
 * - the number in KEY.cls, or of "label" or else "cls" in KEY.json, for KEY.jpg in the same archive
 *   (shards.c). Numbers are labels: every class from 0 to the highest needs images;
 * - the number that is the whole text of KEY.txt;
 * - the image's first folder, after folders that all images of the split share ("./train/");
 * - the archive's own name without ".tar", if the archives are in a folder `train` or `val` and
 *   their images have no folders. ImageNet has such an archive for each class.
 *
 * Classes, samples and their numbers are those that ImageFolder has for the same names on disk;
 * with numbers, the samples of a class have the order of the archives. Labels must not be lost: a
 * label without an image is an error, and so is KEY.json or KEY.txt without a number if no image of
 * the split has one. Archives are not trusted. */
#pragma once

#include "base/words.h"
#include "input/dataset.h"

/* Finds the archives of a split, in strcmp order of their paths: `dir` itself if it is a file; else
 * the archives in <dir>/<split>/ if that folder exists; else the archives in `dir` whose names
 * begin with <split> or contain "-<split>" or "_<split>". Sets d->name, and d->root, to which the
 * results of dataset_path are relative. If there are no archives, `paths` stays empty and the call
 * succeeds. STATUS_DATA if a name says both "train" and "val". */
MUST_CHECK enum status shards_find(const char *dir, const char *split, struct dataset *d,
                                   struct words *paths);

/* Reads the headers of all archives, several at a time, and fills the data set: classes and
 * samples. Takes over `paths`. STATUS_DATA for an archive that is damaged, truncated or compressed,
 * and for an image without a class or a label without an image. */
MUST_CHECK enum status shards_index(const char *split, struct words *paths, struct dataset *d);
