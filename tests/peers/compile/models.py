"""All models of the compiler's proof, by name, in the order of the files that register them."""

import models_containers  # noqa: F401
import models_flow  # noqa: F401
import models_language  # noqa: F401
import models_layers  # noqa: F401
import models_modules  # noqa: F401
import models_nets  # noqa: F401
import models_special  # noqa: F401
import models_tensors  # noqa: F401
from models_kit import MODELS as MODELS
