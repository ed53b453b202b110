"""Models on a server, as sources of ids for the controller. Needs the extra endpoint.

Input: the address of an API that clients of OpenAI's speak, or of llama.cpp's server. Output: ids.
Where a server returns no ids, its texts are read, and what is wrong with them is repaired and said.
"""

from mypt_infer.endpoint.connect import Endpoint, EndpointError
from mypt_infer.endpoint.source import EndpointSource

__all__ = ["Endpoint", "EndpointError", "EndpointSource"]
