//! The JSON Schema of the file, for editors, made from the tables of keys.

use serde_json::{Map, Value, json};

use super::keys::{self, Key, Kind, Shape};

/// The schema, draft 7: what editors of TOML understand.
pub fn schema() -> Value {
    let mut properties = properties(&keys::TOP);
    properties.insert("alert".to_owned(), table("When to alert.", &keys::ALERT, Map::new()));
    properties.insert("claim".to_owned(), table("Who sends for the cluster.", &keys::CLAIM, Map::new()));
    properties.insert("text".to_owned(), table("The user's own words.", &keys::TEXT, Map::new()));
    let kinds: Vec<Value> = keys::KINDS.iter().map(target).collect();
    let targets = json!({"type": "array", "description": "Who receives.", "items": {"oneOf": kinds}});
    properties.insert("target".to_owned(), targets);
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Configuration of Leaderwatch",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

fn target(kind: &Kind) -> Value {
    let own = [&keys::SHARED[..], kind.keys].concat();
    let mut fixed = Map::new();
    fixed.insert(keys::KIND.name.to_owned(), json!({"const": kind.name, "description": kind.doc}));
    table(kind.doc, &own, fixed)
}

/// A table of keys, some of which are replaced by `fixed`.
fn table(doc: &str, keys: &[Key], fixed: Map<String, Value>) -> Value {
    let mut properties = properties(keys);
    properties.extend(fixed);
    let mut schema = json!({
        "type": "object",
        "description": doc,
        "properties": properties,
        "additionalProperties": false,
    });
    let required: Vec<Value> = keys.iter().filter(|key| key.required).map(presence).collect();
    if !required.is_empty() {
        schema["allOf"] = Value::Array(required);
    }
    schema
}

/// That a key is there, in one of its variants.
fn presence(key: &Key) -> Value {
    let variants: Vec<Value> = key.names().into_iter().map(|name| json!({"required": [name]})).collect();
    json!({"anyOf": variants})
}

fn properties(keys: &[Key]) -> Map<String, Value> {
    let mut properties = Map::new();
    for key in keys {
        let mut own = value(key.shape);
        own["description"] = json!(key.doc);
        if let Some(default) = key.default {
            own["default"] = if key.shape == Shape::Flag { json!(default == "true") } else { json!(default) };
        }
        properties.insert(key.name.to_owned(), own);
        if key.shape.is_secret() {
            let mut file = texts_or_one(takes_list(key.shape));
            file["description"] = json!(format!("File that holds `{}`.", key.name));
            properties.insert(format!("{}_file", key.name), file);
            let mut variable = texts_or_one(takes_list(key.shape));
            variable["description"] = json!(format!("Environment variable that holds `{}`.", key.name));
            properties.insert(format!("{}_env", key.name), variable);
        }
    }
    properties
}

fn takes_list(shape: Shape) -> bool {
    matches!(shape, Shape::Secrets | Shape::SecretUrls)
}

fn texts_or_one(is_list: bool) -> Value {
    let one = json!({"type": "string", "minLength": 1});
    if is_list { one_or_list(one) } else { one }
}

fn one_or_list(one: Value) -> Value {
    json!({"anyOf": [one.clone(), {"type": "array", "items": one}]})
}

fn value(shape: Shape) -> Value {
    let text = json!({"type": "string", "minLength": 1});
    let url = json!({"type": "string", "pattern": "^https?://[^/ ]"});
    match shape {
        Shape::Flag => json!({"type": "boolean"}),
        Shape::Choice(words) => json!({"enum": words}),
        Shape::Choices(words) => one_or_list(json!({"enum": words})),
        Shape::Duration(..) => json!({"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}),
        Shape::Labels => json!({
            "type": "object",
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            "additionalProperties": text,
        }),
        Shape::Headers => {
            let by = |name: &str| json!({"type": "object", "properties": {name: text}, "required": [name], "additionalProperties": false});
            json!({"type": "object", "additionalProperties": {"anyOf": [text, by("file"), by("env")]}})
        }
        Shape::ChatId => json!({"type": ["integer", "string"]}),
        Shape::Texts | Shape::Addresses | Shape::Secrets => one_or_list(text),
        Shape::SecretUrl => url,
        Shape::SecretUrls => one_or_list(url),
        Shape::Smtp => json!({"type": "string", "pattern": "^(smtp|smtps|smtp\\+starttls)://[^/ ]"}),
        Shape::ProxyUrl => json!({"type": "string", "pattern": "^(https?|socks5h?)://[^/ ]"}),
        Shape::Text | Shape::Path | Shape::TimeZone | Shape::ClaimStore | Shape::Address | Shape::Secret => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(properties: &Value) -> Vec<String> {
        properties.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
    }

    fn sorted(mut names: Vec<String>) -> Vec<String> {
        names.sort();
        names
    }

    #[test]
    fn it_knows_the_keys_that_the_reader_knows_and_no_other() {
        let schema = schema();
        let tables = keys::TABLES.map(str::to_owned);
        assert_eq!(sorted(names(&schema["properties"])), sorted([&keys::names(&keys::TOP)[..], &tables].concat()));
        let kinds = schema["properties"]["target"]["items"]["oneOf"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(kinds.len(), keys::KINDS.len());
        for (schema, kind) in kinds.iter().zip(&keys::KINDS) {
            let known = keys::names(&[&keys::SHARED[..], kind.keys].concat());
            assert_eq!(sorted(names(&schema["properties"])), sorted(known), "{}", kind.name);
            assert_eq!(schema["properties"]["kind"]["const"], kind.name);
        }
    }
}
