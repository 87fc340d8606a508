import { lazyRouteComponent } from '@tanstack/react-router';
import { useEffect } from 'react';

/** Milliseconds between two looks whether the server is back. */
const EVERY = 1_000;
/** Milliseconds within which a document that was loaded anew for a page is not loaded again for it: its code is gone for good. */
const RELOADED_WITHIN = 30_000;

/**
 * A page whose code is fetched when it is first wanted. While the server does not answer it is waited for: the browser would put its own
 * page in the place of the console if the document were loaded then. Browsers remember a module that could not be fetched, so the document
 * is loaded anew when the server is back; also when the server is of another version by then, whose files have other names.
 */
export function lazyPage<Name extends string, Page>(load: () => Promise<Record<Name, Page>>, name: Name) {
  const loadOrWait = () =>
    load().catch(async (error: unknown) => {
      await serverAnswers();
      return { [name]: reloadingPage(name, error) } as Record<Name, Page>;
    });
  return lazyRouteComponent(loadOrWait, name);
}

/** Takes the place of a page. It does nothing until it is shown: a link that is only pointed at fetches the code of its page too. */
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
