import { configDefaults, defineConfig } from 'vitest/config';
import everything, { END_TO_END } from './vitest.config.ts';

/**
 * The program as people run it: started from its command line, asked over HTTP, killed and started again (`npm run test:e2e`). And the
 * TypeScript client as it is published, in a browser and under every Node of the machine.
 */
export default defineConfig({
  test: { ...everything.test, include: END_TO_END, exclude: configDefaults.exclude },
});
