"""Function tools in the shapes of OpenAI's chat completions and responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .provider_tools import OPENAI_LENGTH, ProviderTools


class OpenAITools(ProviderTools):
    """Function tools. The API caches prompts without cache breakpoints.

    A promotion changes the list. In the format `openai_call_tool` the list never changes.
    """

    max_name_length: ClassVar[int] = OPENAI_LENGTH
    reply_providers: ClassVar[tuple[str, ...]] = ("openai",)

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """A function tool."""
        parameters = {"type": "object", "properties": {}} | dict(schema)
        function = {"name": name, "description": description, "parameters": parameters}
        return {"type": "function", "function": function}

    def request(
        self,
        system: Any,
        tools: Sequence[Mapping[str, Any]],
        messages: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:
        """`messages`, with the system prompt first, and `tools`: the API refuses an empty list."""
        first = [{"role": "system", "content": system}] if system else []
        return {"messages": [*first, *messages]} | ({"tools": list(tools)} if tools else {})


class OpenAIResponsesTools(OpenAITools):
    """Function tools as the responses of OpenAI take them."""

    reply_providers: ClassVar[tuple[str, ...]] = ("openai_responses",)

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """A function tool. Strict schemas, the API's default, allow no optional arguments."""
        function: dict[str, Any] = super().tool(name, description, schema)["function"]
        return {"type": "function", "strict": False, **function}

    def request(
        self,
        system: Any,
        tools: Sequence[Mapping[str, Any]],
        messages: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:
        """`instructions`, `input` and `tools`."""
        request = {"instructions": system, "tools": list(tools)}
        return {name: value for name, value in request.items() if value} | {"input": list(messages)}
