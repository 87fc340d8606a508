/**
 * Writes the files that are made from code: `node tools/generate.ts`. With `--check` it writes nothing and
 * exits with 1, naming the files that are out of date.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import * as z from 'zod';
import { apiTypes } from '../console/tools/api-types.ts';
import manifest from '../server/package.json' with { type: 'json' };
import { writtenSettings } from '../server/src/config/destination-schema.ts';
import { configFileSchema } from '../server/src/config/schema.ts';
import { openApi } from '../server/src/control-api/openapi.ts';
import { DESTINATION_TYPES } from '../server/src/destinations/list.ts';
import { webhooks } from '../server/src/destinations/webhooks/destination.ts';
import {
  type ControlOperationDependencies,
  controlOperations,
} from '../server/src/wiring/control-operations.ts';
import { cliReference } from './cli-reference.ts';
import { configurationReference } from './configuration-reference.ts';
import { encoder, encoderLayout } from './encoder.ts';
import { errorsReference } from './errors-reference.ts';

const ROOT = resolve(import.meta.dirname, '..');

/**
 * The formatter's line width. A list that fits into it stands on one line, and the formatter changes nothing.
 */
const WIDTH = 110;

/** Pattern of the reference that a text of the configuration file may hold in place of a value. */
const REFERENCE = '\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}';

/** Operations are only described here and never run, so nothing stands behind them. */
const NOTHING = {
  store: {},
  types: DESTINATION_TYPES,
  dispatcher: {},
  settings: {},
  reports: {},
  clock: {},
  signIn: {},
} as unknown as ControlOperationDependencies;

const GENERATED: Readonly<Record<string, () => unknown>> = {
  'spec/config.schema.json': () =>
    withReferences(
      jsonSchema(configFileSchema, {
        title: 'Millrace configuration',
        description: `The file of \`millrace start --config\`. In a text, $\{NAME} reads the environment.`,
      }),
    ),
  'spec/destinations/webhooks.settings.schema.json': () =>
    jsonSchema(writtenSettings(webhooks), {
      title: 'Settings of a Millrace destination of type webhooks',
      description: 'destinations[].settings, in the configuration file and in the control API.',
    }),
  'spec/openapi.json': () => openApi(controlOperations(NOTHING), manifest.version),
  // From the document above.
  'console/src/api/schema.d.ts': apiTypes,
  'docs/reference/cli.md': cliReference,
  'docs/reference/errors.md': errorsReference,
  // Without the references to variables, which every text may hold.
  'docs/reference/configuration.md': () =>
    configurationReference(jsonSchema(configFileSchema, { title: '', description: '' })),
  // Before the module that is compiled with it.
  'server/src/ingest/fast-path/assembly/layout.ts': encoderLayout,
  'server/src/ingest/fast-path/encoder.wasm': encoder,
};

const checking = process.argv.includes('--check');
for (const [path, make] of Object.entries(GENERATED)) {
  const file = resolve(ROOT, path);
  const wanted = bytesOf(await make());
  if (existsSync(file) && readFileSync(file).equals(wanted)) continue;
  if (checking) {
    process.exitCode = 1;
    process.stderr.write(`${path} is out of date: run npm run generate\n`);
  } else {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, wanted);
    process.stdout.write(`${path} written\n`);
  }
}

/** Bytes and texts are written as they are, anything else as JSON. */
function bytesOf(made: unknown): Buffer {
  if (made instanceof Uint8Array) return Buffer.from(made);
  return Buffer.from(typeof made === 'string' ? made : `${print(made)}\n`);
}

/** Draft 7, the version that editors know best; what may be left out when writing is not required. */
function jsonSchema(
  schema: z.ZodType,
  about: { title: string; description: string },
): Record<string, unknown> {
  const { $schema, ...rest } = z.toJSONSchema(schema, { io: 'input', target: 'draft-07' });
  return { $schema, ...about, ...rest, ...about };
}

/**
 * The file is checked by editors before references are replaced: wherever a text has a rule, a reference will
 * do too. Names of keys are never replaced.
 */
function withReferences(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withReferences);
  if (typeof schema !== 'object' || schema === null) return schema;
  const inner: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    inner[key] = key === 'propertyNames' ? value : withReferences(value);
  }
  if (inner['type'] !== 'string') return inner;
  const { enum: values, pattern, ...rest } = inner;
  if (Array.isArray(values)) return { ...rest, anyOf: [{ enum: values }, { pattern: REFERENCE }] };
  return typeof pattern === 'string' ? { ...rest, pattern: `(${pattern})|${REFERENCE}` } : inner;
}

/**
 * JSON as the formatter of this repository writes it. `indent` is where the value's first line starts;
 * `beside`: characters of that line before and after.
 */
function print(value: unknown, indent = '', beside = 1): string {
  const deeper = `${indent}  `;
  if (Array.isArray(value)) {
    const line = `[${value.map((item) => print(item, deeper)).join(', ')}]`;
    const flat = value.every((item) => typeof item !== 'object' || item === null);
    if (flat && indent.length + beside + line.length <= WIDTH) return line;
    return `[\n${value.map((item) => deeper + print(item, deeper)).join(',\n')}\n${indent}]`;
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const entries = Object.entries(value);
  const lines = entries.map(([key, item], nth) => {
    const start = `${JSON.stringify(key)}: `;
    const comma = nth < entries.length - 1 ? 1 : 0;
    return deeper + start + print(item, deeper, start.length + comma);
  });
  return lines.length === 0 ? '{}' : `{\n${lines.join(',\n')}\n${indent}}`;
}
