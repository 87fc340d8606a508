import { lazyRouteComponent } from '@tanstack/react-router';
import { useEffect } from 'react';

/** Milliseconds between two looks whether the server is back. */
const EVERY = 1_000;
/** Reload at most once in 30 s: if the code is still missing then, it no longer exists. */
const RELOADED_WITHIN = 30_000;

/**
 * Makes a page whose code is fetched when it is first needed. While the server does not answer, it waits:
 * reloading the document then would replace the console with an error page of the browser. Browsers remember
 * a module that could not be fetched, so the document is reloaded once the server is back, also because
 * another version of the server has other names of files.
 */
export function lazyPage<Name extends string, Page>(load: () => Promise<Record<Name, Page>>, name: Name) {
  const loadOrWait = () =>
    load().catch(async (error: unknown) => {
      await serverAnswers();
      return { [name]: reloadingPage(name, error) } as Record<Name, Page>;
    });
  return lazyRouteComponent(loadOrWait, name);
}

/**
 * Stands in for a page. It does nothing until it is shown: pointing at a link fetches the code of its page
 * too.
 */
function reloadingPage(name: string, error: unknown) {
  const key = `reloaded:${name}`;
  let isReloading = false;
  return function ReloadingPage() {
    if (!isReloading && Date.now() - Number(sessionStorage.getItem(key)) < RELOADED_WITHIN) throw error;
    useEffect(() => {
      if (isReloading) return;
      isReloading = true;
      sessionStorage.setItem(key, String(Date.now()));
      void serverAnswers().then(() => window.location.reload());
    }, []);
    return null;
  };
}

/** Resolves when the server answers, whatever it says. */
async function serverAnswers(): Promise<void> {
  for (;;) {
    try {
      await fetch('/', { method: 'HEAD', cache: 'no-store' });
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, EVERY));
    }
  }
}
