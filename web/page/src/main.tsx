// The path of a page load: the session starts (a code in the address, else the cookie); until it is known, nothing is
// shown; without one, the login lies over the page, which keeps its address. With one, `router.ts` finds the view of the
// address and loads it.
import { render } from 'preact';
import { followAddress } from './address/address';
import { startSession } from './api/session';
import { Shell } from './shell';
import { followKeys } from './ui/keyboard';

followAddress();
followKeys();
const root = document.getElementById('page');
if (root !== null) render(<Shell />, root);
void startSession();
