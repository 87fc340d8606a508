import { resolve } from 'node:path';
import asc from 'assemblyscript/asc';

const ROOT = resolve(import.meta.dirname, '..');

/**
 * `server/src/ingest/fast-path/assembly` compiled. No runtime, as it allocates nothing, and no `abort`, as nothing in it is asserted: of a module
 * with static memory only, the same sources give the same bytes everywhere.
 */
export async function encoder(): Promise<Uint8Array> {
  let code: Uint8Array | undefined;
  const { error, stderr } = await asc.main(
    [
      ...['server/src/ingest/fast-path/assembly/index.ts', '--baseDir', ROOT, '--outFile', 'encoder.wasm'],
      ...['-O3', '--noAssert', '--runtime', 'stub', '--enable', 'simd', '--use', 'abort='],
    ],
    {
      writeFile: (_name: string, contents: Uint8Array | string) => {
        if (typeof contents !== 'string') code = contents;
      },
    },
  );
  if (error !== null || code === undefined)
    throw new Error(`server/src/ingest/fast-path/assembly: ${stderr.toString()}`);
  return code;
}
