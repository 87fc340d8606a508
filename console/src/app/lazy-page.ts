import { lazyRouteComponent } from '@tanstack/react-router';

/** Milliseconds between two looks whether the server is back. */
const EVERY = 1_000;

/**
 * A page whose code is fetched when it is first wanted. While the server does not answer it is waited for: the router would load the whole
 * document anew at once, and the browser would put its own page in the place of the console.
 */
export function lazyPage<Name extends string, Page>(load: () => Promise<Record<Name, Page>>, name: Name) {
  const loadOrWait = () =>
    load().catch(async (error: unknown) => {
      while (!(await isAnswering())) await new Promise((resolve) => setTimeout(resolve, EVERY));
      // By these words the router knows that the document is to be loaded anew, which it does once.
      throw new TypeError(`Failed to fetch dynamically imported module: ${String(error)}`, { cause: error });
    });
  return lazyRouteComponent(loadOrWait, name);
}

/** Whatever it answers. */
function isAnswering(): Promise<boolean> {
  return fetch('/', { method: 'HEAD', cache: 'no-store' }).then(
    () => true,
    () => false,
  );
}
