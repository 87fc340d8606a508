import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import described from '../../../spec/openapi.json' with { type: 'json' };
import { isObject, type Json, type JsonObject } from '../../src/model/json.ts';

/**
 * The names of all fields of a JSON schema, with those of the objects inside. Free keys, such as reasons,
 * have no names.
 */
function fieldsOf(schema: Json | undefined): string[] {
  if (!isObject(schema)) return [];
  const properties = isObject(schema.properties) ? schema.properties : {};
  const own = Object.entries(properties).flatMap(([name, inner]) => [name, ...fieldsOf(inner as Json)]);
  return [...own, ...fieldsOf(schema.items as Json)];
}

/** The text of a page below a heading, up to the next one of the same level. */
function sectionOf(page: string, heading: string): string {
  const from = page.indexOf(`\n## ${heading}\n`);
  expect(from).toBeGreaterThan(0);
  const end = page.indexOf('\n## ', from + 1);
  return page.slice(from, end < 0 ? undefined : end);
}

test('every field of the status of a destination has a place in the reference', () => {
  const paths = described.paths as unknown as Record<string, JsonObject>;
  const path = Object.keys(paths).find((one) => one.endsWith('/destinations/{name}/status'))!;
  const { get } = paths[path] as unknown as {
    get: { responses: Record<string, { content: Record<string, { schema: JsonObject }> }> };
  };
  const fields = new Set(fieldsOf(get.responses['200']!.content['application/json']!.schema));
  expect(fields.size).toBeGreaterThan(10);
  const page = readFileSync(new URL('../../../docs/reference/control-api.md', import.meta.url), 'utf8');
  const section = sectionOf(page, 'How a destination does');
  expect([...fields].filter((name) => !section.includes(`\`${name}\``))).toEqual([]);
});
