/** `typebox`: the functions that make JSON schemas. What validates values comes from pi's own installation. */

"use strict";

const OPTIONAL = Symbol("optional");
const READONLY = Symbol("readonly");
const Kind = Symbol.for("TypeBox.Kind");
const Hint = Symbol.for("TypeBox.Hint");
const OptionalKind = Symbol.for("TypeBox.Optional");

function schema(kind, fields, options) {
  const made = { ...fields, ...options };
  Object.defineProperty(made, Kind, { value: kind });
  return made;
}

function marked(value, mark) {
  const made = { ...value };
  for (const each of Object.getOwnPropertySymbols(value)) Object.defineProperty(made, each, { value: value[each] });
  Object.defineProperty(made, mark, { value: true });
  return made;
}

const isOptional = (value) => value[OPTIONAL] === true;

function object(properties, options = {}) {
  const required = Object.keys(properties).filter((each) => !isOptional(properties[each]));
  return schema("Object", { type: "object", ...(required.length ? { required } : {}), properties }, options);
}

function picked(source, keeps, options) {
  return object(Object.fromEntries(Object.entries(source.properties).filter(([name]) => keeps(name))), options);
}

const namesOf = (keys) => (Array.isArray(keys) ? keys : (keys.anyOf ?? [keys]).map((each) => each.const ?? each));

function literal(value, options) {
  return schema("Literal", { type: value === null ? "null" : typeof value, const: value }, options);
}

const Type = {
  Any: (options) => schema("Any", {}, options),
  Unknown: (options) => schema("Unknown", {}, options),
  Never: (options) => schema("Never", { not: {} }, options),
  Null: (options) => schema("Null", { type: "null" }, options),
  Undefined: (options) => schema("Undefined", { type: "undefined" }, options),
  Void: (options) => schema("Void", { type: "void" }, options),
  String: (options) => schema("String", { type: "string" }, options),
  Number: (options) => schema("Number", { type: "number" }, options),
  Integer: (options) => schema("Integer", { type: "integer" }, options),
  Boolean: (options) => schema("Boolean", { type: "boolean" }, options),
  Literal: literal,
  Const: literal,
  Enum(values, options) {
    const listed = Array.isArray(values) ? values : Object.entries(values).filter(([name]) => Number.isNaN(Number(name))).map(([, value]) => value);
    return schema("Union", { anyOf: listed.map((each) => literal(each)) }, options);
  },
  Array: (items, options) => schema("Array", { type: "array", items }, options),
  Tuple: (items, options) =>
    schema("Tuple", { type: "array", items, additionalItems: false, minItems: items.length, maxItems: items.length }, options),
  Object: object,
  Record(key, value, options) {
    if (key?.anyOf) return object(Object.fromEntries(namesOf(key).map((name) => [name, value])), options);
    return schema("Record", { type: "object", patternProperties: { [key?.pattern ?? "^.*$"]: value } }, options);
  },
  Union: (anyOf, options) => schema("Union", { anyOf }, options),
  Intersect: (allOf, options) => schema("Intersect", { allOf }, options),
  Composite: (all, options) => object(Object.assign({}, ...all.map((each) => each.properties)), options),
  Optional: (value) => marked(value, OPTIONAL),
  Readonly: (value) => marked(value, READONLY),
  ReadonlyOptional: (value) => marked(marked(value, OPTIONAL), READONLY),
  Partial: (source, options) =>
    object(Object.fromEntries(Object.entries(source.properties).map(([name, value]) => [name, marked(value, OPTIONAL)])), options),
  Required(source, options) {
    const plain = ([name, value]) => [name, schema(value[Kind], { ...value }, {})];
    return object(Object.fromEntries(Object.entries(source.properties).map(plain)), options);
  },
  Pick: (source, keys, options) => picked(source, (name) => namesOf(keys).includes(name), options),
  Omit: (source, keys, options) => picked(source, (name) => !namesOf(keys).includes(name), options),
  KeyOf: (source, options) => schema("Union", { anyOf: Object.keys(source.properties).map((each) => literal(each)) }, options),
  Index: (source, key) => source.properties[namesOf(key)[0]],
  Ref: (to, options) => schema("Ref", { $ref: typeof to === "string" ? to : to.$id }, options),
  Unsafe: (value = {}) => schema("Unsafe", { ...value }, {}),
  Date: (options) => schema("Date", { type: "string", format: "date-time" }, options),
  RegExp: (pattern, options) => schema("RegExp", { type: "string", pattern: pattern.source ?? pattern }, options),
  Not: (value, options) => schema("Not", { not: value }, options),
  Recursive(make, options) {
    const $id = options?.$id ?? `T${++recursive}`;
    return schema("Recursive", { ...make({ $ref: $id }), $id }, options);
  },
};
let recursive = 0;

module.exports = { Kind, Hint, OptionalKind, Type, default: Type };
