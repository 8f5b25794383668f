"""Names in both directions between Tenon and PyTorch's strategy "file_system"."""

import tenon
import tenon.torch
import torch
import torch.multiprocessing

# Tenon lends, and PyTorch opens it as it opens its own.
mine = tenon.zeros((2, 3), "float32", filename=tenon.Filename())
handle = tenon.torch.share_filename(mine)
storage = torch.UntypedStorage._new_shared_filename_cpu(*handle.torch_tuple())
theirs = torch.empty(0).set_(storage, handle.storage_offset, handle.sizes, handle.strides)
theirs[0, 0] = 42
print(mine.numpy()[0, 0])  # prints: 42.0

# PyTorch lends, and Tenon opens it.
torch.multiprocessing.set_sharing_strategy("file_system")
tensor = torch.zeros(2, 3).share_memory_()
opened = tenon.torch.from_torch(tensor)  # in the process that has the tensor
items = tensor.untyped_storage()._share_filename_cpu_()  # elsewhere: the tuple travels
named = tenon.open_filename(tenon.FilenameHandle.from_torch_tuple(*items), allow_unsealed=True)
tenon.Tensor.over(named, (2, 3), "float32").numpy()[1, 2] = 7
print(tensor[1, 2].item(), opened.storage == named)  # prints: 7.0 True
