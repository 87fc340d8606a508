import './ui/font.css';
import './ui/tokens.css';
import './ui/foundation.css';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { createQueryClient } from './app/query-client.ts';
import { createAppRouter } from './app/router.tsx';
import { applyTheme } from './ui/preferences.ts';
import { listenForShortcuts } from './ui/shortcuts.ts';
import { listenForCutTexts } from './ui/whole-text.ts';

applyTheme();
listenForShortcuts();
listenForCutTexts();
const queryClient = createQueryClient();
const router = createAppRouter(queryClient);
const root = document.getElementById('root');
if (root === null) throw new Error('index.html has no element with the id root');
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
