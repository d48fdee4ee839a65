"""Debezium's ContentBasedRouter and Filter: a topic, or whether a record stays, by an expression.

    transforms.route.type=io.debezium.transforms.ContentBasedRouter
    transforms.route.language=jsr223.groovy
    transforms.route.topic.expression=value.op == 'u' ? 'updates' : null

The expressions of Groovy and JavaScript are understood as far as they compute with what is in the
record: comparisons, arithmetic, `?:`, fields and elements, and some methods of text. They are no
programs: there are no variables, no loops and no classes. `language=sql` takes SQL in their place.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Final

from odradek.config.kinds import string
from odradek.connect.data.schemas import Schema
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.expressions.compiling import Compiled, compile_expression
from odradek.connect.expressions.parsing import Notation, parse
from odradek.connect.expressions.records import record_scope
from odradek.connect.settings import REQUIRED, PluginSettings, Problems, invalid
from odradek.connect.transforms.java_patterns import java_pattern
from odradek.connect.transforms.transform import R

_LANGUAGES: Final = {
    "jsr223.groovy": Notation.GROOVY,
    "jsr223.graal.js": Notation.GROOVY,
    "jsr223.js": Notation.GROOVY,
    "sql": Notation.SQL,
}


class ByContentSettings(PluginSettings):
    language = string(
        "language", REQUIRED, "The notation of the expression.", choices=tuple(_LANGUAGES)
    )
    topic_regex = string(
        "topic.regex", None, "The topics whose records are looked at; unset, all of them."
    )
    null_handling_mode = string(
        "null.handling.mode",
        "keep",
        "What happens with records that have no value: `keep` leaves them as they are.",
        choices=("drop", "keep", "evaluate"),
    )

    def wrong_in(self, name: str, text: str) -> Problems:
        problems: Problems = {}
        try:
            parse(text, _LANGUAGES[self.language])
        except InvalidConfig as error:
            problems[name] = [invalid(name, text, str(error))]
        try:
            if self.topic_regex is not None:
                java_pattern(self.topic_regex)
        except InvalidConfig as error:
            problems["topic.regex"] = [invalid("topic.regex", self.topic_regex, str(error))]
        return problems


class ContentFilterSettings(ByContentSettings):
    condition = string("condition", REQUIRED, "Records for which it is true stay.")

    def wrong_together(self) -> Problems:
        return self.wrong_in("condition", self.condition)


class ContentBasedRouterSettings(ByContentSettings):
    topic_expression = string(
        "topic.expression", REQUIRED, "The new topic; null leaves the record where it is."
    )

    def wrong_together(self) -> Problems:
        return self.wrong_in("topic.expression", self.topic_expression)


class _ByContent:
    def __init__(self, settings: ByContentSettings, text: str) -> None:
        self._expression = parse(text, _LANGUAGES[settings.language])
        regex = settings.topic_regex
        self._topics = None if regex is None else java_pattern(regex)
        self._nulls = settings.null_handling_mode
        self._compiled = lru_cache(1000)(self._compile)

    def apply(self, record: R) -> R | None:
        if self._topics is not None and self._topics.fullmatch(record.topic) is None:
            return record
        if record.value is None and self._nulls != "evaluate":
            return record if self._nulls == "keep" else None
        result = self._compiled(record.key_schema, record.value_schema).get(record)
        return self._with_result(record, result)

    def _compile(self, key: Schema | None, value: Schema | None) -> Compiled:
        return compile_expression(self._expression, record_scope(key, value))

    def _with_result(self, record: R, result: Any) -> R | None:
        """Returns what becomes of a record for which the expression gives this."""
        raise NotImplementedError


class ContentFilter(_ByContent):
    settings_class: ClassVar = ContentFilterSettings

    def __init__(self, settings: ContentFilterSettings) -> None:
        super().__init__(settings, settings.condition)

    def _with_result(self, record: R, result: Any) -> R | None:
        if result is not None and not isinstance(result, bool):
            raise DataError(f"the condition gives {result!r:.60}, which is neither true nor false")
        return record if result else None


class ContentBasedRouter(_ByContent):
    settings_class: ClassVar = ContentBasedRouterSettings

    def __init__(self, settings: ContentBasedRouterSettings) -> None:
        super().__init__(settings, settings.topic_expression)

    def _with_result(self, record: R, result: Any) -> R | None:
        if result is None:
            return record
        if not isinstance(result, str) or not result:
            raise DataError(f"the expression gives {result!r:.60}, which is not a topic")
        return replace(record, topic=result)
