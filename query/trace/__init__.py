"""One trace: what is read of it (`reading`), and how its spans stand under each other (`waterfall`)."""
