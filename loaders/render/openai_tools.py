"""Function tools as the chat completions of OpenAI take them, and what follows that shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from .provider_tools import OPENAI_LENGTH, ProviderTools


class OpenAITools(ProviderTools):
    """Function tools; caching needs no mark. With `openai_call_tool` the list never changes."""

    name_length: ClassVar[int] = OPENAI_LENGTH

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """A function tool."""
        parameters = {"type": "object", "properties": {}} | dict(schema)
        function = {"name": name, "description": description, "parameters": parameters}
        return {"type": "function", "function": function}
