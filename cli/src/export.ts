import { writeFileSync } from 'node:fs';
import { type ExportedRecords, formatConfig } from '@millrace/server/config';
import { answered } from './answered.ts';
import type { ControlFlags } from './control-api.ts';
import type { ExitCode, RunContext } from './run-context.ts';

export interface ExportOptions extends ControlFlags {
  /** The file to write; stdout when absent. */
  readonly output?: string;
  readonly json?: boolean;
}

/**
 * `millrace export`: writes the sources and destinations of a running server as a configuration file, with
 * names of variables in place of secrets. spec/contract.md, "Configuration file".
 */
export async function exportRecords(options: ExportOptions, context: RunContext): Promise<ExitCode> {
  const reply = await answered(options, context, { path: 'config', method: 'GET' });
  if (typeof reply === 'number') return reply;
  if (!isShown(reply.value)) {
    context.err.write(
      'millrace: the server speaks of its configuration in another way: is it of this version?\n',
    );
    return 1;
  }
  if (options.json !== true && reply.value.sources.some(hasMaskedKeys)) {
    context.err.write('millrace: a viewer is shown no write keys: export with the token of an editor.\n');
    return 1;
  }
  const text = options.json ? `${reply.text}\n` : formatConfig(reply.value);
  if (options.output === undefined) {
    context.out.write(text);
    return 0;
  }
  try {
    writeFileSync(options.output, text);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    context.err.write(`millrace: ${options.output} cannot be written (${code}).\n`);
    return 1;
  }
  const { sources, destinations, audiences = [], traits = [], alerts = [] } = reply.value;
  const counts = { sources, destinations, audiences, traits, alerts };
  const listed = Object.entries(counts).map(([kind, records]) => `${kind} ${records.length}`);
  context.err.write(
    `millrace: wrote ${options.output}: ${listed.join(', ')}. ` +
      'Its first lines list the variables that its secrets are read from.\n',
  );
  return 0;
}

function hasMaskedKeys({ writeKeys }: ExportedRecords['sources'][number]): boolean {
  return Array.isArray(writeKeys) && writeKeys.some((key) => String(key).startsWith('…'));
}

function isShown(value: unknown): value is ExportedRecords {
  return (
    typeof value === 'object' &&
    value !== null &&
    'sources' in value &&
    Array.isArray(value.sources) &&
    'destinations' in value &&
    Array.isArray(value.destinations)
  );
}
