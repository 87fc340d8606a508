/** Prints what the browser client weighs; exit code 1 if it is more than it may. */
import { bundleForBrowsers, LARGEST } from './bundle.ts';

const { code, gzipped } = await bundleForBrowsers();
console.log(`browser client: ${code.length} bytes, ${gzipped} gzipped, at most ${LARGEST}`);
process.exitCode = gzipped <= LARGEST ? 0 : 1;
