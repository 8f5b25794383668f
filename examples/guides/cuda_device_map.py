"""An archive whose tensors were saved on a CUDA device goes where the device map says."""

import io

import numpy
import tenon

tenon.require_cuda()
host = io.BytesIO()
module = tenon.Module("Net")
module.add_buffer("weight", numpy.arange(6, dtype="float32"))
tenon.export_module(module, host)

device = tenon.import_module(host, tensors="device")
archive = io.BytesIO()
tenon.export_module(device, archive, keep_device=True)  # its tensors say cuda:0

plain = tenon.import_module(archive)  # to the CPU, with a warning
print(plain["weight"].device, len(plain.warnings))  # prints: cpu 1

quiet = tenon.import_module(archive, device_map={"cuda": "cpu"})
print(quiet["weight"].device, len(quiet.warnings))  # prints: cpu 0

there = tenon.import_module(archive, device_map={"cuda:0": "cuda:0", "mps": "cpu"})
print(there["weight"].device, len(there.warnings))  # prints: cuda:0 0
