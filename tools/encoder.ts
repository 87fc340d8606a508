import { resolve } from 'node:path';
import asc from 'assemblyscript/asc';
import {
  DESCRIPTOR,
  FIELD_NAMES,
  IN_BATCH,
  MARK_BITS,
  PIECE,
  PIECE_WORDS,
} from '../server/src/ingest/fast-path/layout.ts';

const ROOT = resolve(import.meta.dirname, '..');
const SOURCES = 'server/src/ingest/fast-path/assembly';
const WORD_BYTES = 4;

/**
 * `assembly/layout.ts`: the tables of `layout.ts` as constants of AssemblyScript, with offsets in bytes
 * instead of words.
 */
export function encoderLayout(): string {
  const constants = (type: string, table: Readonly<Record<string, number>>, unit = 1) =>
    Object.entries(table).map(([name, value]) => `export const ${name}: ${type} = ${value * unit};\n`);
  const fields = Object.fromEntries(Object.keys(FIELD_NAMES).map((name, number) => [name, number]));
  const sections = [
    ['/** Made from `../layout.ts`, which says what each of these means, by `npm run generate`. */\n'],
    [
      '/** Offsets in a descriptor, and its size. */\n',
      ...constants('usize', DESCRIPTOR, WORD_BYTES),
      ...constants('usize', { DESCRIPTOR: Object.keys(DESCRIPTOR).length }, WORD_BYTES),
    ],
    ['/** Bits of `MARKS`. */\n', ...constants('u32', MARK_BITS)],
    [
      '/** Offsets in the addresses of the pieces, and how many bytes those take. */\n',
      ...constants('usize', PIECE, PIECE_WORDS * WORD_BYTES),
      ...constants('i32', { PIECES_SIZE: Object.keys(PIECE).length }, PIECE_WORDS * WORD_BYTES),
    ],
    ['/** In place of the type of a single call. */\n', ...constants('i32', { IN_BATCH })],
    ['/** Numbers of the names that are recognised. */\n', ...constants('i32', fields)],
  ];
  return sections.map((lines) => lines.join('')).join('\n');
}

/**
 * The compiled module. It has no runtime, as it allocates nothing, and no `abort`, as it asserts nothing. A
 * module with static memory only comes out of the same sources with the same bytes on every machine.
 */
export async function encoder(): Promise<Uint8Array> {
  let code: Uint8Array | undefined;
  const { error, stderr } = await asc.main(
    [
      `${SOURCES}/index.ts`,
      '--baseDir',
      ROOT,
      '--outFile',
      'encoder.wasm',
      '-O3',
      '--noAssert',
      '--runtime',
      'stub',
      '--enable',
      'simd',
      '--use',
      'abort=',
    ],
    {
      writeFile: (_name: string, contents: Uint8Array | string) => {
        if (typeof contents !== 'string') code = contents;
      },
    },
  );
  if (error !== null || code === undefined) throw new Error(`${SOURCES}: ${stderr.toString()}`);
  return code;
}
