exports.timing = (req, res, next) => next();
exports.tenant = function tenant(req, res, next) {
  next();
};
exports.locale = function locale(req, res, next) {
  next();
};
