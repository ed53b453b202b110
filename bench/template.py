"""Holds a chat template as people write it, without the checks of the exported one.

So the yardstick is not slowed by these.
"""

TEMPLATE = """
{%- for m in messages -%}
{%- if m.role == "system" -%}<myPT_system>{{ m.content }}</myPT_system>
{%- elif m.role == "user" -%}<myPT_user>
    {%- if "context" in m -%}<myPT_user_context>{{ m.context }}</myPT_user_context>{%- endif -%}
    {{- m.content }}</myPT_user>
{%- elif m.role == "assistant_context" -%}
    <myPT_assistant_context>{{ m.content }}</myPT_assistant_context>
{%- elif m.role == "toolresult" -%}<myPT_toolresult>{{ m.content | tojson }}</myPT_toolresult>
{%- else -%}{% generation %}<myPT_assistant>
    {%- if "think" in m -%}<myPT_think>{{ m.think }}</myPT_think>{%- endif -%}
    {%- if m.role == "assistant_toolcall" -%}
        <myPT_toolcall>{"name": {{ m.name | tojson }}
        {%- for key, value in m.arguments.items() -%}
        {{ ", " }}{{ key | tojson }}: {{ value | tojson }}
        {%- endfor -%}
        }</myPT_toolcall></myPT_assistant>
    {%- else -%}
        {{- m.content }}
        {%- if "cite" in m %} <myPT_cite>{{ m.cite }}</myPT_cite>{% endif -%}
        </myPT_assistant><myPT_eot>
    {%- endif -%}{% endgeneration %}
{%- endif -%}
{%- endfor -%}
"""
