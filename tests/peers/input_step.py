#!/usr/bin/env python3
"""Images read, decoded, cropped at random, resized and flipped, to be timed beside ampscale's loader.

usage: input_step.py WAY DIR BATCH SIZE
Says "ready <versions>", then answers each line on its standard input with the images/s of a pass over
DIR/train/*/*.JPEG on one thread, or "error <why>". WAY is

  pil          torchvision's ImageFolder and transforms, by PIL
  torchvision  torchvision's own decoder and v2 transforms
  dali         DALI's CPU pipeline: its decoder decodes only the crop

All give what ampscale's loader gives: a batch of bytes in RGB, SIZE x SIZE pixels, not yet normalised,
by RandomResizedCrop's defaults, antialiased, in a new order in each pass.
"""
import os
import sys
import time


def torchvision_batches(way, root, batch, size):
    import torch
    import torchvision
    from torchvision import datasets, io, transforms
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    if way == "pil":
        steps = transforms.Compose([transforms.RandomResizedCrop(size),
                                    transforms.RandomHorizontalFlip(), transforms.PILToTensor()])
        folder = datasets.ImageFolder(root, steps)
    else:
        steps = v2.Compose([v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip()])
        folder = datasets.ImageFolder(
            root, steps,
            loader=lambda path: io.decode_image(io.read_file(path), mode=io.ImageReadMode.RGB))

    def batches():
        for images, _ in torch.utils.data.DataLoader(folder, batch, shuffle=True):
            yield len(images)

    return f"torchvision {torchvision.__version__}", batches


def dali_batches(_, root, batch, size):
    import nvidia.dali as dali
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=batch, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def pipeline():
        files, _ = fn.readers.file(file_root=root, random_shuffle=True, name="files")
        images = fn.decoders.image_random_crop(files, device="cpu", output_type=types.RGB,
                                               random_aspect_ratio=[3 / 4, 4 / 3],
                                               random_area=[0.08, 1.0], num_attempts=10)
        images = fn.resize(images, resize_x=size, resize_y=size, interp_type=types.INTERP_LINEAR,
                           antialias=True)
        return fn.flip(images, horizontal=fn.random.coin_flip())

    made = pipeline()
    made.build()
    images = made.epoch_size("files")

    def batches():
        for _ in range(images // batch):
            yield len(made.run()[0])

    return f"DALI {dali.__version__}", batches


def main():
    way, root, batch, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    make = dali_batches if way == "dali" else torchvision_batches
    about, batches = make(way, os.path.join(root, "train"), batch, size)
    print(f"ready {about}", flush=True)
    for _ in sys.stdin:
        try:
            begun = time.perf_counter()
            images = sum(batches())
            said = f"images_per_s {images / (time.perf_counter() - begun):.2f}"
        except Exception as problem:  # the side that asks needs a reply in every case
            said = "error " + " ".join(str(problem).split())[:200]
        print(said, flush=True)


if __name__ == "__main__":
    main()
