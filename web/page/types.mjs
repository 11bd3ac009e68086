// Makes src/api/api_types.ts, the types of what the API takes and answers, from the document that every service serves.
// Arguments: the document, the file to write. Numbers are exact ones, and what may be any JSON is `Json` (src/api/numbers.ts).
import { readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';

const { openapi, info, components } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const { schemas } = components;
const SAYS_NOTHING = new Set(['title', 'description', 'default', 'examples']);
const IMPORTED = { SentNumber: 'Num', SentJson: 'Json' };

const mapped = (of, change) => Object.fromEntries(Object.entries(of).map(([key, value]) => [key, change(value)]));
const reference = (name, { description } = {}) => ({ $ref: `#/components/schemas/${name}`, description });

/** With references to the types that are imported. */
function exact(schema) {
  if (Object.keys(schema).every((key) => SAYS_NOTHING.has(key))) return reference('SentJson', schema);
  const { type, properties, items, anyOf, additionalProperties: others } = schema;
  if (type === 'number') return reference('SentNumber', schema);
  if (Array.isArray(type)) return { ...schema, type: undefined, anyOf: type.map((one) => exact({ type: one })) };
  const changed = { ...schema };
  if (properties !== undefined) changed.properties = mapped(properties, exact);
  if (anyOf !== undefined) changed.anyOf = anyOf.map(exact);
  if (items !== undefined) changed.items = exact(items);
  if (items !== undefined && schema.minItems === schema.maxItems && schema.minItems > 1) {
    changed.prefixItems = Array(schema.minItems).fill(changed.items);
  }
  if (type === 'object' && (others === true || (others ?? properties) === undefined)) {
    changed.additionalProperties = reference('SentJson');
  } else if (others) changed.additionalProperties = exact(others);
  return changed;
}

const imported = mapped(IMPORTED, (title) => ({ title }));
const document = { openapi, info, paths: {}, components: { schemas: { ...mapped(schemas, exact), ...imported } } };
const nodes = await openapiTS(JSON.parse(JSON.stringify(document)), {
  transform: ({ title }, { path }) =>
    title !== undefined && IMPORTED[path.split('/').at(-1)] === title
      ? ts.factory.createTypeReferenceNode(title)
      : undefined,
  rootTypes: true,
  rootTypesNoSchemaPrefix: true,
  rootTypesKeepCasing: true,
  silent: true,
});
const types = astToString(nodes);

/** The bodies that forms of the page send: what the document says of their fields. */
const FORMS = ['NewDomain', 'NewInvitation', 'NewIssuerKey', 'NewKey', 'NewPrincipal', 'NewScimToken', 'NewToken'];
const LONG = 1_000; // characters from which a text has more than one line

function described({ title: label, ...schema }) {
  const one = schema.anyOf?.find((each) => each.type !== 'null') ?? schema;
  const { type, enum: choices } = one.$ref === undefined ? one : schemas[one.$ref.split('/').at(-1)];
  if (choices !== undefined) return { label, kind: 'choice' };
  if (type === 'integer') return { label, kind: 'number', min: one.minimum, max: one.maximum };
  const kinds = { boolean: 'check', array: 'many' };
  return { label, kind: kinds[type] ?? (one.maxLength >= LONG ? 'long' : 'text') };
}

const forms = FORMS.map((name) => {
  const { properties, required } = schemas[name];
  const fields = Object.entries(properties).map(([field, schema]) => {
    const what = described(schema);
    const isAsked = required.includes(field) && what.kind !== 'choice'; // something is always chosen
    return `  ${field}: ${JSON.stringify({ ...what, required: isAsked || undefined })},\n`;
  });
  return `\nexport const ${name} = {\n${fields.join('')}} as const;\n`;
});

writeFileSync(
  process.argv[3],
  `// Made by \`make interface\` from sluice/openapi.json.
import type { Json, Num } from './numbers';

${types}${forms.join('')}`,
);
